"""The line in front of the slots: one bounded FIFO for everybody who waits, threads and coroutines alike.

A slot that comes back goes straight to the first in line; nobody can overtake. Nothing here knows of models:
it hands out slot numbers, which :mod:`muser.pool` turns into sessions.

An exception of a signal handler, as KeyboardInterrupt, may come after any call and must lose neither the lock nor a
slot. So the lock is only taken with ``with``, which nothing can come between; a change of state is a few stores with
no call among them; and what an interrupted caller left undone is seen in the tickets by the next one.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from muser._uncopied import Uncopied
from muser.errors import CancelledError, MuserError, OverloadedError, WaitTimeoutError

if TYPE_CHECKING:
    import asyncio

MAX_WAITERS = 64

T = TypeVar("T")

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


class Ticket(Uncopied):
    """One caller's place in line, and later its slot. Dropping it gives back whichever it holds.

    A ticket may be released by the garbage collector or a signal handler in any thread, in the middle of anything: that
    only marks it, and whoever has the lock next, often the same thread at once, takes back what it held. So it is with
    cancelling, and with closing the queue.
    """

    def __init__(self, queue: SlotQueue) -> None:
        self._queue = queue
        self._slot: int | None = None
        self._over = False  # given back
        self._error: MuserError | None = None
        self._wake: Callable[[], object] = _nobody

    @property
    def slot(self) -> int:
        if self._slot is None or self._over:
            raise RuntimeError("this ticket holds no slot")
        return self._slot

    @property
    def holds_slot(self) -> bool:
        return self._slot is not None and not self._over

    def release(self) -> None:
        """Gives back the slot or the place in line. May be called by anyone, any number of times."""
        if not self._over:
            self._over = True
            self._queue._returned = True
        self._queue._settle()

    def cancel(self) -> None:
        """Ends a wait in progress with CancelledError; a slot that was already handed out stays."""
        if self._slot is None and self._error is None:
            self._error = CancelledError("cancelled while waiting for a slot")
            self._queue._returned = True
        self._queue._settle()

    def __del__(self) -> None:
        if hasattr(self, "_wake"):
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
        self._holders: list[weakref.ref[Ticket] | None] = [None] * count
        self._line: list[Ticket] = []
        self._returned = False  # a ticket changed that may be in line or hold a slot, or all end
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
        signal: SimpleQueue[None] = SimpleQueue()
        try:
            if self._locked(self._enter, ticket, functools.partial(signal.put, None), hint):
                with suppress(Empty):
                    signal.get(timeout=None if timeout is None else min(timeout, threading.TIMEOUT_MAX))
            self._locked(self._leave, ticket, timeout)
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
            if self._locked(self._enter, ticket, lambda: loop.call_soon_threadsafe(_resolve, granted), hint):
                await asyncio.wait([granted], timeout=timeout)
            self._locked(self._leave, ticket, timeout)
        except BaseException:
            ticket.release()
            raise
        return ticket

    # -- with the lock held ------------------------------------------------------------------------------------

    def _enter(self, ticket: Ticket, wake: Callable[[], object], hint: Hint | None) -> bool:
        """Takes a free slot at once, or joins the line and returns True."""
        if self._end is not None:
            raise self._end()
        if ticket._error is not None:
            raise ticket._error
        self._hand_out()  # the line comes first, also when an interrupted caller left it waiting beside a free slot
        free = self._free()
        if free:
            self._grant(ticket, self._choose(free, hint))
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
        if ticket.holds_slot:
            return
        raise ticket._error or WaitTimeoutError(f"no slot became free within {timeout} s")

    def _free(self) -> list[int]:
        return [slot for slot, holder in enumerate(self._holders) if holder is None or _is_over(holder())]

    def _choose(self, free: list[int], hint: Hint | None) -> int:
        if hint is None or self._prefers is None or len(free) == 1:
            return min(free)
        prefers = self._prefers
        return max(free, key=lambda slot: (prefers(slot, hint), -slot))

    def _grant(self, ticket: Ticket, slot: int) -> None:
        holder = weakref.ref(ticket)
        ticket._slot = slot  # no call from here on
        self._holders[slot] = holder
        self._granted += 1

    def _hand_out(self) -> None:
        """Free slots to the first in line, and errors to whom they await. One leaves the line after the wake, so
        that an interrupted round is done again; a wake too many does no harm."""
        for ticket in list(self._line):
            if self._end is not None and ticket._error is None and ticket._slot is None:
                ticket._error = self._end()
            if not ticket._over and ticket._error is None and ticket._slot is None:
                free = self._free()
                if not free:
                    continue
                self._grant(ticket, free[0])
            if not ticket._over and not _wake(ticket):
                ticket._over = True  # its event loop is closed: nobody is there to use the slot
            self._line.remove(ticket)

    # -- the lock ----------------------------------------------------------------------------------------------

    def _locked(self, action: Callable[..., T], *arguments: object) -> T:
        try:
            with self._lock:
                return action(*arguments)
        finally:
            try:
                self._settle()
            except BaseException:  # a signal handler's: what others gave back meanwhile must not wait for the next call
                self._settle()
                raise

    def _settle(self) -> None:
        """Handles what came back. If the lock is taken, its holder settles when it is done: perhaps it is this very
        thread, collecting garbage or handling a signal. Otherwise this waits at most for one change of state that was faster."""
        while self._returned and not self._lock.locked():
            with self._lock:
                self._returned = False
                try:
                    self._hand_out()
                except BaseException:
                    self._returned = True
                    raise

    def close(self, make_error: Callable[[], MuserError]) -> None:
        """Every waiter wakes with an error of its own, and so does every later caller. The first close counts."""
        if self._end is None:
            self._end = make_error
        self._returned = True
        self._settle()

    # -- looking ---------------------------------------------------------------------------------------------

    def stats(self) -> QueueStats:
        return self._locked(self._stats)

    def _stats(self) -> QueueStats:
        return QueueStats(
            slots=self._count,
            free=len(self._free()),
            waiting=len(self._line),
            limit=self._limit,
            granted=self._granted,
            refused=self._refused,
        )


def _is_over(ticket: Ticket | None) -> bool:
    return ticket is None or ticket._over


def _nobody() -> None:
    pass


def _wake(ticket: Ticket) -> bool:
    """False: its event loop is closed."""
    try:
        ticket._wake()
    except RuntimeError:
        return False
    return True


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
