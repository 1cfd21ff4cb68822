"""The methods of ``Model`` that go on from files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muser import _checks as checks
from muser._core import Core
from muser._watch import READER_GRACE_SECONDS, ReaderWatch
from muser.pool import SlotPool
from muser.session import PathLike, Permit
from muser.stream import Stream

if TYPE_CHECKING:
    from muser.sampler import Sampler


class SavingFront:
    """A base of ``Model``, which has the core and the slots."""

    _core: Core
    _watch: ReaderWatch
    slots: SlotPool

    def restore(
        self, path: PathLike, *, sampler: Sampler | None = None, key: bytes | None = None, timeout: float | None = None
    ) -> Permit:
        """A session from a file that ``Session.save`` wrote: ``with model.restore(path) as session: ...``. Nothing is
        computed. Waits for a slot as :meth:`session` does. Errors as :meth:`Session.restore`; then no slot is taken."""
        permit = self.slots.acquire(timeout=timeout)
        try:
            permit.session.restore(path, sampler=sampler, key=key)
        except BaseException:
            permit.release()
            raise
        return permit

    def resume(self, path: PathLike, *, key: bytes | None = None, timeout: float | None = None) -> Stream:
        """A generation from a file that ``Stream.save`` wrote; that of a chat is a :class:`ChatStream`. It goes on with the
        next chunk, as if it had never been interrupted; its ``completion`` has the tokens of before as well. Waits for a slot.

        Raises SessionFileError (another ``context_policy`` included, which a session may have), FileAccessError,
        ParameterError; OverloadedError, WaitTimeoutError, ClosedError as :meth:`session`.
        """
        from muser.chat.generation import ChatGeneration
        from muser.chat.stream import ChatStream
        from muser.saving import encryption, generations

        name, secret = checks.path(path), encryption.checked_key(key)
        self._core.engine()  # a closed model says so before it looks at any file
        generation, snapshot = generations.load(self._core, name, secret)
        session = self.slots.acquire(timeout=timeout).session
        try:
            with session._drive as engine:
                generations.install(engine, session.slot, snapshot, name)
            kind = ChatStream if isinstance(generation, ChatGeneration) else Stream
            return kind(generation, session, watch=self._watch, grace=READER_GRACE_SECONDS)
        except BaseException:
            session._end()
            raise
