"""``model.slots``: lends sessions. The waiting itself is in :mod:`muser._queue`."""

from __future__ import annotations

import functools
from collections.abc import Generator
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muser import _checks as checks
from muser._core import Core, Prompt, closed_error
from muser._queue import Hint, QueueStats, SlotQueue, Ticket
from muser._uncopied import Uncopied
from muser.errors import OverloadedError, UnhealthyError, WaitTimeoutError
from muser.session import Permit, Session


class SlotPool(Uncopied):
    """The slots of one model. At most 64 callers wait, first come, first served, threads and coroutines in one line."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._queue = SlotQueue(core.slots, prefers=functools.partial(_gain, core))

    def acquire(self, *, timeout: float | None = None, prompt: Prompt | None = None) -> Permit:
        """Waits for a slot; use the result as a context manager.

        Args:
            timeout: seconds to wait at most; 0: do not wait; None: until a slot is free or the model closes.
            prompt: what will be prefilled. Of several free slots the one that still holds the most rows of it, and the
                fewest others, is lent. The session is empty all the same; its first ``prefill`` takes those rows over.

        Raises:
            OverloadedError: 64 callers wait already. At once.
            WaitTimeoutError, ClosedError, UnhealthyError, ForkedError.
        """
        limit = checks.timeout(timeout)
        return Permit(self._lend(self._hint(prompt), limit))

    def acquire_async(self, *, timeout: float | None = None, prompt: Prompt | None = None) -> AsyncPermit:
        """The same for coroutines: ``async with model.slots.acquire_async() as session``. Holds no thread; the prompt is
        tokenized or checked in another one, once this is awaited."""
        return AsyncPermit(self, prompt, checks.timeout(timeout))

    def stats(self) -> QueueStats:
        """The state of the line at this moment, and what was handed out and refused since the load."""
        return self._queue.stats()

    def __len__(self) -> int:
        return self._core.slots

    def __repr__(self) -> str:
        return f"<muser.SlotPool of {self._core.slots} slots>"

    # -- for the generation loop and the model ----------------------------------------------------------------

    def _lend(self, hint: Hint | None, timeout: float | None, ticket: Ticket | None = None) -> Session:
        self._core.engine()
        return self._session(self._queue.acquire(hint=hint, timeout=timeout, ticket=ticket))

    def _lend_if_free(self, hint: Hint) -> Session | None:
        """A session in a slot that is free and that nobody waits for; never waits."""
        if not self._queue.stats().free:
            return None
        try:
            return self._lend(hint, 0.0)
        except (OverloadedError, WaitTimeoutError):  # somebody was faster
            return None

    async def _lend_async(self, hint: Hint | None, timeout: float | None, ticket: Ticket | None = None) -> Session:
        self._core.engine()
        return self._session(await self._queue.acquire_async(hint=hint, timeout=timeout, ticket=ticket))

    def _ticket(self) -> Ticket:
        return Ticket(self._queue)

    def _close(self) -> None:
        self._queue.close(closed_error)

    def _session(self, ticket: Ticket) -> Session:
        """A failure here gives the slot back."""
        try:
            cause = self._core.engine().unhealthy_cause()
            if cause is not None:
                self._queue.close(lambda: _unhealthy(cause))
                raise _unhealthy(cause)
            return Session(self._core, ticket)
        except BaseException:
            ticket.release()
            raise

    def _hint(self, prompt: Prompt | None) -> NDArray[np.int32] | None:
        self._core.engine()
        return None if prompt is None else self._core.encode(prompt)


class AsyncPermit(Uncopied):
    """``async with`` it, or ``await`` it for a :class:`Permit`."""

    def __init__(self, pool: SlotPool, prompt: Prompt | None, timeout: float | None) -> None:
        pool._core.engine()
        self._pool = pool
        self._prompt = prompt
        self._timeout = timeout
        self._session: Session | None = None

    def __await__(self) -> Generator[Any, None, Permit]:
        return self._acquire().__await__()

    async def _acquire(self) -> Permit:
        hint: Hint | None = None
        if self._prompt is not None:  # a long list of ids takes as long as a text
            import asyncio  # its host has it already

            hint = await asyncio.get_running_loop().run_in_executor(None, self._pool._hint, self._prompt)
        return Permit(await self._pool._lend_async(hint, self._timeout))

    async def __aenter__(self) -> Session:
        self._session = (await self._acquire()).session
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            self._session._end()


def _unhealthy(cause: str) -> UnhealthyError:
    return UnhealthyError(f"the model is unhealthy: {cause}; close it and load it again", cause=cause)


def _gain(core: Core, slot: int, hint: Hint) -> int:
    """Rows that the slot saves the prompt, less those that it would lose: a beginning of one token that all prompts
    share must not cost a conversation its place while another slot is empty."""
    engine = core.engine()
    shared = engine.reusable(slot, hint)
    return shared - (engine.retained(slot) - shared)
