"""The threads behind the coroutines. Those of concurrent.futures are joined when the interpreter exits, for the whole
rest of a generation that nobody will read; these are daemons, which :mod:`muser._exit` ends within one step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_ENCODERS = 2  # threads beyond one a slot, so that tokenizing a newcomer never waits for a running generation

_Work = tuple["Future[Any]", Callable[[], object]]


class Workers(Executor):
    """At most ``limit`` threads, started when there is work for them. They end when this object does."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()  # one item for each thread that has nothing to do
        self._started = 0
        self._lock = threading.Lock()

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._work.put((future, lambda: function(*args, **kwargs)))
        with self._lock:
            try:
                self._idle.get_nowait()
            except Empty:
                if self._started < self._limit:
                    name = f"muser-{self._started}"
                    threading.Thread(target=_run, args=(self._work, self._idle), name=name, daemon=True).start()
                    self._started += 1
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """The threads end after what was submitted. Never waits for them and cancels nothing."""
        self._work.put(None)

    def __del__(self) -> None:
        self.shutdown()


def make_workers(slots: int) -> Workers:
    """For a model: whoever works long in one of them holds a slot."""
    return Workers(slots + _ENCODERS)


def _run(queue: SimpleQueue[_Work | None], idle: SimpleQueue[None]) -> None:
    while (work := queue.get()) is not None:
        future, call = work
        if future.set_running_or_notify_cancel():
            try:
                result = call()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
        del work, future, call  # nothing of the host lives on in a thread that waits
        idle.put(None)
    queue.put(None)  # for the next thread
