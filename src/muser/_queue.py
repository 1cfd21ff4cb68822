"""The line in front of the slots: one bounded FIFO for everybody who waits, threads and coroutines alike.

A slot that comes back goes straight to the first in line; nobody can overtake. Nothing here knows of models:
it hands out slot numbers, which :mod:`muser.pool` turns into sessions.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from muser.errors import CancelledError, MuserError, OverloadedError, WaitTimeoutError

if TYPE_CHECKING:
    import asyncio

MAX_WAITERS = 64

Hint = NDArray[np.int32]
"""The ids of the caller's prompt."""


@dataclass(frozen=True, kw_only=True)
class QueueStats:
    """A moment of the line."""

    slots: int
    free: int
    waiting: int
    limit: int
    """Most callers that may wait."""

    granted: int
    """Slots handed out since the start."""

    refused: int
    """Callers turned away with OverloadedError."""


class Ticket:
    """One caller's place in line, and later its slot. Dropping it gives back whichever it holds.

    Its lock is a raw semaphore, not a Condition, because a ticket may be released by the garbage collector in
    any thread, in the middle of anything: nothing on that path may block or be re-entered.
    """

    def __init__(self, queue: SlotQueue) -> None:
        self._queue = queue
        self._slot: int | None = None
        self._error: MuserError | None = None
        self._wake: Callable[[], object] = _nobody

    @property
    def slot(self) -> int:
        if self._slot is None:
            raise RuntimeError("this ticket holds no slot")
        return self._slot

    @property
    def holds_slot(self) -> bool:
        return self._slot is not None

    def release(self) -> None:
        """Gives back the slot or the place in line. May be called by anyone, any number of times."""
        self._queue._give_back(self)

    def cancel(self) -> None:
        """Ends a wait in progress with CancelledError; a slot that was already handed out stays."""
        self._queue._fail_one(self, CancelledError("cancelled while waiting for a slot"))

    def __del__(self) -> None:
        self.release()


class SlotQueue:
    """``count`` slots and one FIFO of at most ``limit`` waiters. All methods are thread-safe.

    ``prefers(slot, hint)`` scores a free slot for a caller's hint; the highest wins, the lowest number among equals.
    """

    def __init__(
        self, count: int, *, limit: int = MAX_WAITERS, prefers: Callable[[int, Hint], int] | None = None
    ) -> None:
        self._count = count
        self._limit = limit
        self._prefers = prefers
        self._free = list(range(count))
        self._line: deque[Ticket] = deque()
        self._returned: deque[Ticket] = deque()  # given back, not yet settled
        self._end: Callable[[], MuserError] | None = None  # closed or failed: raised by every later call
        self._lock = threading.Lock()
        self._granted = 0
        self._refused = 0

    # -- taking ----------------------------------------------------------------------------------------------

    def acquire(
        self, *, hint: Hint | None = None, timeout: float | None = None, ticket: Ticket | None = None
    ) -> Ticket:
        """A ticket that holds a slot; blocks without the GIL, and Ctrl-C ends the wait.

        ``ticket`` lets another thread cancel the wait. Raises OverloadedError at once when the line is full,
        WaitTimeoutError, CancelledError, or what the queue was closed with.
        """
        ticket = ticket or Ticket(self)
        signal = threading.Lock()
        signal.acquire()
        try:
            if self._enter(ticket, signal.release, hint):
                signal.acquire(timeout=-1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))
            self._leave(ticket, timeout)
        except BaseException:
            ticket.release()
            raise
        return ticket

    async def acquire_async(
        self, *, hint: Hint | None = None, timeout: float | None = None, ticket: Ticket | None = None
    ) -> Ticket:
        """The same for a coroutine: it waits on a future and holds no thread."""
        import asyncio  # only hosts that have it already come here

        ticket = ticket or Ticket(self)
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[None] = loop.create_future()
        try:
            if self._enter(ticket, lambda: loop.call_soon_threadsafe(_resolve, granted), hint):
                await asyncio.wait([granted], timeout=timeout)
            self._leave(ticket, timeout)
        except BaseException:
            ticket.release()
            raise
        return ticket

    def _enter(self, ticket: Ticket, wake: Callable[[], object], hint: Hint | None) -> bool:
        """Takes a free slot at once, or joins the line and returns True."""
        with self._locked():
            if self._end is not None:
                raise self._end()
            if ticket._error is not None:
                raise ticket._error
            if self._free:
                self._grant(ticket, self._choose(hint))
                return False
            if len(self._line) >= self._limit:
                self._refused += 1
                raise OverloadedError(
                    f"{len(self._line)} callers already wait for {self._count} slots, the limit is {self._limit}",
                    waiting=len(self._line),
                    limit=self._limit,
                )
            ticket._wake = wake
            self._line.append(ticket)
            return True

    def _leave(self, ticket: Ticket, timeout: float | None) -> None:
        """After the wait: the ticket holds a slot, or this raises why not."""
        with self._locked():
            if ticket._slot is not None:
                return
            if ticket._error is not None:
                raise ticket._error
        raise WaitTimeoutError(f"no slot became free within {timeout} s")

    def _choose(self, hint: Hint | None) -> int:
        if hint is None or self._prefers is None or len(self._free) == 1:
            return min(self._free)
        prefers = self._prefers
        return max(self._free, key=lambda slot: (prefers(slot, hint), -slot))

    def _grant(self, ticket: Ticket, slot: int) -> None:
        self._free.remove(slot)
        self._granted += 1
        ticket._slot = slot

    # -- giving back -----------------------------------------------------------------------------------------

    def _give_back(self, ticket: Ticket) -> None:
        self._returned.append(ticket)
        self._settle()

    def _settle(self) -> None:
        """Handles what came back. Never blocks: if the lock is taken, its holder settles when it is done."""
        while self._returned and self._lock.acquire(blocking=False):
            try:
                while self._returned:
                    self._take_back(self._returned.popleft())
            finally:
                self._lock.release()

    def _take_back(self, ticket: Ticket) -> None:
        if ticket._slot is None:
            if ticket in self._line:
                self._line.remove(ticket)
            return
        self._free.append(ticket._slot)
        ticket._slot = None
        while self._line and self._free:
            first = self._line.popleft()
            self._grant(first, self._free[0])
            try:
                first._wake()
            except RuntimeError:  # its event loop is closed: nobody is there to use the slot
                self._free.append(first.slot)
                first._slot = None

    def _fail_one(self, ticket: Ticket, error: MuserError) -> None:
        with self._locked():
            if ticket._slot is None and ticket._error is None:
                ticket._error = error
                if ticket in self._line:
                    self._line.remove(ticket)
                    _wake(ticket)

    def close(self, make_error: Callable[[], MuserError]) -> None:
        """Every waiter wakes with an error of its own, and so does every later caller. The first close counts."""
        with self._locked():
            if self._end is None:
                self._end = make_error
            while self._line:
                ticket = self._line.popleft()
                ticket._error = self._end()
                _wake(ticket)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        finally:
            self._settle()

    # -- looking ---------------------------------------------------------------------------------------------

    def stats(self) -> QueueStats:
        with self._locked():
            return QueueStats(
                slots=self._count,
                free=len(self._free),
                waiting=len(self._line),
                limit=self._limit,
                granted=self._granted,
                refused=self._refused,
            )


def _nobody() -> None:
    pass


def _wake(ticket: Ticket) -> None:
    try:
        ticket._wake()
    except RuntimeError:  # its event loop is closed
        pass


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
