"""A slot, lent to one caller: prefill, decode, look, rewind. Frameworks that sample for themselves work here;
``Model.generate`` and its relatives are built on the same calls.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from muser import _checks as checks
from muser._core import Core, Prompt, logger
from muser._muser import Turn
from muser._native import EngineTurn
from muser._queue import Ticket
from muser._uncopied import Uncopied
from muser.errors import ClosedError, MuserError, ParameterError
from muser.sampler import Sampler
from muser.shifting import shifted

T = TypeVar("T")
PathLike: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]

MAX_GROUP = 4
END_LIMIT_SECONDS = 30.0
_PERMIT_ENDED = "the permit of this session has ended"


class Session(Uncopied):
    """The state of one sequence: its tokens, their keys and values, and the logits of the last one.

    Comes from ``model.slots.acquire()`` and is empty then. One thread drives it at a time; a second one gets
    BusyError. Only :meth:`cancel` may be called from anywhere. When its permit ends, every call raises ClosedError.
    A failed or cancelled call leaves position, tokens and logits as of the last row that was completed.
    """

    def __init__(self, core: Core, ticket: Ticket) -> None:
        self._core = core
        self._ticket = ticket
        self._slot = ticket.slot
        self._ended = False
        self._reused = 0
        # The right to call into the engine: one thread at a time.
        turn = Turn(core.engine, busy="another thread is driving this session", ended=_PERMIT_ENDED)
        self._drive = cast(EngineTurn, turn)
        # So that a late cancel cannot hit the slot's next owner. Re-entrant: the garbage collector may cancel or
        # end sessions from any thread, in the middle of anything.
        self._cancel_lock = threading.RLock()
        engine = core.engine()
        engine.reset(self._slot)
        engine.clear_cancel(self._slot)

    # -- rows ------------------------------------------------------------------------------------------------

    def prefill(self, tokens: Prompt, *, timeout: float | None = None) -> None:
        """Appends text or ids; afterwards :attr:`logits` are those of the last one.

        Text is encoded with parse_special=False, and with a BOS only at position 0 and if the file asks for it.
        Runs in chunks between which other sessions' decodes go first. Exactly ``context - position`` tokens fit.
        An empty session takes over rows that are there already for the same leading tokens, from an earlier owner of
        the slot or from the prefix cache: :attr:`cached_tokens` says how many. The bits are the same.

        Raises:
            ContextFullError: they do not fit; nothing was appended.
            ParameterError: no tokens, a bad id, another type; nothing was appended.
            WaitTimeoutError, CancelledError: between two chunks; :attr:`position` says how many rows are in.
        """
        limit = checks.timeout(timeout)
        with self._drive as engine:
            add_bos = None if engine.position(self._slot) == 0 else False
            ids = self._core.encode(tokens, add_bos=add_bos, parameter="tokens")
            self._reused = engine.prefill(self._slot, ids, limit, True)

    def decode(self, token: int, *, timeout: float | None = None) -> NDArray[np.float32]:
        """Appends one token and returns the logits after it: float32 ``[vocab]``, read-only.

        Packed with the decodes of other sessions that arrive at the same moment, which changes no bit of it.
        """
        limit = checks.timeout(timeout)
        checked = checks.integer("token", token, 0, self._core.vocab - 1)
        with self._drive as engine:
            engine.decode(self._slot, checked, limit)
            logits = engine.logits(self._slot)
        assert logits is not None  # a decode that returns has logits
        return logits

    def sample(self, sampler: Sampler, mask: NDArray[np.uint32] | None = None) -> int:
        """A token from the retained logits, which stay where they are. ``mask``: see :meth:`Sampler.sample`.

        Penalties look back at what the sampler was told: give it the prompt with :meth:`Sampler.accept`.

        Raises:
            ParameterError: before the first row; a sampler that is no :class:`Sampler`; a mask of another size.
            LogitsError: the model computed a NaN, or -inf everywhere: the file is damaged. Or mask and logit_bias
                leave no token.
        """
        if not isinstance(sampler, Sampler):
            raise checks.refuse("sampler", "must be a muser.Sampler", sampler)
        checked = checks.token_mask(mask)
        with self._drive as engine:
            try:
                return sampler._sample_slot(engine, self._slot, checked)
            except ParameterError as error:
                if error.parameter != "slot":
                    raise
                raise ParameterError(
                    "the session has no logits to sample from: there are some after a prefill or decode", parameter="session"
                ) from None

    def rewind(self, to: int) -> None:
        """Forgets the rows from position ``to`` on. There are no logits until the next row.

        Position 0 and the present one are always possible; without sliding windows, so is every one between. With them
        it is one at most 512 rows below the highest position that was ever written in these rows. Rewinds add up, then;
        and a session that took over rows (:attr:`cached_tokens`) of a longer one counts from that one's end, and has less
        to go back, perhaps nothing, until it is past it. With ``prefix_cache_bytes=0`` none takes over any.

        Raises ParameterError above the position, or below what the sliding-window rings still hold; the message names the
        lowest position.
        """
        with self._drive as engine:
            engine.rewind(self._slot, checks.integer("to", to, 0, self._core.context))

    def fork(self, into: Session | Permit, *, timeout: float | None = None) -> None:
        """Makes ``into``, another session of the same model, an equal of this one: tokens, keys and values, logits. What
        it held is gone. Both go on by themselves, with the bits that one session alone would have.

        Copies the rows while owning the device, in about the time of reading and writing them once.

        Raises ParameterError for itself or another model's session; BusyError, ClosedError; WaitTimeoutError and
        CancelledError (of ``into``) before anything was changed.
        """
        other = into.session if isinstance(into, Permit) else into
        if not isinstance(other, Session) or other is self or other._core is not self._core:
            raise checks.refuse("into", "must be another session of the same model, or its permit", into)
        limit = checks.timeout(timeout)
        _driving([self, other], lambda: self._core.engine().fork(self._slot, other._slot, limit))

    def shift(self, keep: int = 0, *, timeout: float | None = None) -> int:
        """Makes room: drops the older half of the tokens after the first ``keep``, up to the end of a turn if one ends
        there, and computes the rest again at their new positions, in a session of its own and beside other callers'
        work. This session changes at the end, at once; interrupted, it is what it was. Returns how many were dropped.

        Raises:
            ParameterError: not ``context_policy="shift"``; ``keep`` is not below the position; fewer than two tokens.
            WaitTimeoutError, CancelledError: another shift was in progress, or this one took too long.
        """
        limit = checks.timeout(timeout)
        with self._drive as engine:
            tokens = engine.tokens(self._slot)
            leading = checks.integer("keep", keep, 0, max(len(tokens) - 1, 0))
            kept = shifted(tokens, leading, self._core.tokenizer.stop_ids)
            if self._core.shifts and not kept.size:
                rule = f"leaves no token of a session of {len(tokens)}: a shift needs two or more"
                raise ParameterError(f"keep={leading} {rule}", parameter="keep", value=leading)
            engine.shift(self._slot, kept, limit)
        return len(tokens) - len(kept)

    def save(
        self, path: PathLike, *, sampler: Sampler | None = None, key: bytes | None = None
    ) -> None:
        """Writes the session to a file: tokens, keys and values, logits, and the state of ``sampler`` if it is given.

        The file appears whole or not at all (a temporary file, flushed to the disk, then renamed), readable by its
        owner only. ``key``: 32 bytes to encrypt it with, which needs ``pip install "muser[encryption]"``.

        Raises FileAccessError, ParameterError.
        """
        from muser.saving import encryption, sessions

        name, secret = checks.path(path), encryption.checked_key(key)
        _check_sampler(sampler)
        with self._drive as engine:
            sessions.save(self._core, engine, self._slot, name, secret, sampler)

    def restore(self, path: PathLike, *, sampler: Sampler | None = None, key: bytes | None = None) -> None:
        """Makes this session, whatever it holds, the one that was saved; it goes on with the same bits. ``sampler``, made
        with the same parameters and seed, goes on where the saved one was.

        Raises:
            SessionFileError: the file is damaged, or of another model, context, kv_dtype or version, or its key is
                another one. Nothing has changed then.
            FileAccessError, ParameterError.
        """
        from muser.saving import encryption, sessions

        name, secret = checks.path(path), encryption.checked_key(key)
        _check_sampler(sampler)
        with self._drive as engine:
            sessions.restore(self._core, engine, self._slot, name, secret, sampler)

    # -- looking ---------------------------------------------------------------------------------------------

    @property
    def cached_tokens(self) -> int:
        """Tokens of the last ``prefill`` whose rows were there already."""
        return self._reused

    @property
    def logits(self) -> NDArray[np.float32] | None:
        """Logits of the last row, float32 ``[vocab]``, read-only; None before the first row and after a rewind."""
        with self._drive as engine:
            return engine.logits(self._slot)

    @property
    def tokens(self) -> list[int]:
        """The ids of all rows."""
        with self._drive as engine:
            tokens: list[int] = engine.tokens(self._slot).tolist()
            return tokens

    @property
    def position(self) -> int:
        """Rows in the session, which is the position of the next token."""
        with self._drive as engine:
            return engine.position(self._slot)

    @property
    def context(self) -> int:
        """Rows it can hold: the whole context of the model, not a share of it."""
        return self._core.context

    @property
    def slot(self) -> int:
        """Which of the model's slots it is, ``0..slots - 1``."""
        return self._slot

    # -- ending ----------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Ends the call in progress within one chunk or step, and every later one, with CancelledError.

        From any thread. :meth:`clear_cancel` makes the session usable again.
        """
        with self._cancel_lock:
            if self._ended:
                raise ClosedError(_PERMIT_ENDED)
            self._core.engine().cancel(self._slot)

    def clear_cancel(self) -> None:
        """Makes a cancelled session usable again; what it holds is as of the last row that was completed."""
        with self._drive as engine:
            engine.clear_cancel(self._slot)

    def __repr__(self) -> str:
        state = "ended" if self._ended else f"of {self._core.context} rows"
        return f"<muser.Session in slot {self._slot}, {state}>"

    def _cancel_quietly(self) -> None:
        """Cancel, if there is still something to cancel."""
        try:
            self.cancel()
        except MuserError:
            pass

    def _end(self) -> None:
        """Gives the slot back. If another thread is inside a call, that call is cancelled and waited for: the next owner
        must find the slot at rest. After END_LIMIT_SECONDS, and at once in a signal handler which that call cannot get
        past, it is left to the call to give the slot back when it ends."""
        try:
            self._end_within(END_LIMIT_SECONDS)
        except BaseException:  # a signal handler's, as KeyboardInterrupt: it may end the wait, but loses no slot
            self._end_within(0.0)
            raise

    def _end_within(self, limit: float) -> None:
        """Every part of it may be done again, until the slot is back."""
        self._ended = True
        self._drive.end(self._give_back)
        if self._core.in_this_process and self._drive.taken:
            self._while_lent("cancel")
            deadline = time.monotonic() + limit
            while self._drive.taken:
                if not self._drive.can_be_awaited:
                    return
                if time.monotonic() >= deadline:
                    logger.warning("slot %d: a call was still running after %g s", self._slot, limit)
                    return
                time.sleep(0.0005)
        self._give_back()

    def _give_back(self) -> None:
        """May be done again, by any thread."""
        with self._cancel_lock:
            if self._core.in_this_process:
                self._while_lent("leave_decode")
            self._ticket.release()

    def _while_lent(self, operation: str) -> None:
        """Engine call that must not hit the slot's next owner."""
        with self._cancel_lock:
            if self._ticket.holds_slot:
                try:
                    getattr(self._core.engine(), operation)(self._slot)
                except MuserError:  # closed: the engine has let go of the slot already
                    pass

    def __del__(self) -> None:
        if hasattr(self, "_cancel_lock"):
            self._end()


class Permit(Uncopied):
    """Lends a session: ``with model.slots.acquire() as session: ...``. Leaving the block gives the slot back."""

    def __init__(self, session: Session) -> None:
        self.session = session
        """What it lends."""

    def release(self) -> None:
        """Gives the slot back now. May be called more than once. In a signal handler that interrupted a call of this
        thread: as soon as the session's call, which it cancels, has ended."""
        self.session._end()

    def __enter__(self) -> Session:
        if self.session._ended:
            raise ClosedError("the permit was released")
        return self.session

    def __repr__(self) -> str:
        return f"<muser.Permit {'released' if self.session._ended else f'of slot {self.session.slot}'}>"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def decode_group(
    rows: Sequence[tuple[Session, int]], *, timeout: float | None = None
) -> list[NDArray[np.float32]]:
    """One token for each of 1 to 4 sessions of one model, in one pass over the weights, all or none.

    Returns their logits in order, each float32 ``[vocab]``, the same bits as ``session.decode(token)`` gives.

    Raises:
        ParameterError: not 1 to 4 rows, a session twice, sessions of different models, a bad token.
        BusyError, ClosedError, ContextFullError, CancelledError: one of them cannot; then none was decoded.
    """
    pairs = _pairs(rows)
    limit = checks.timeout(timeout)
    if not 1 <= len(pairs) <= MAX_GROUP:
        raise ParameterError(f"rows must hold 1..{MAX_GROUP} sessions, not {len(pairs)}", parameter="rows", value=len(pairs))
    sessions = [session for session, _ in pairs]
    if len({id(session) for session in sessions}) != len(sessions):
        raise ParameterError("rows must not name a session twice", parameter="rows", value=[s.slot for s in sessions])
    core = sessions[0]._core
    if any(session._core is not core for session in sessions):
        raise ParameterError("rows must be sessions of one model", parameter="rows", value=len(pairs))
    tokens = _tokens_of(pairs, core.vocab)
    slots = [session._slot for session in sessions]

    def decode() -> list[NDArray[np.float32] | None]:
        engine = core.engine()
        engine.decode_group(slots, tokens, limit)
        return [engine.logits(slot) for slot in slots]

    return [row for row in _driving(sessions, decode) if row is not None]


def _driving(sessions: Sequence[Session], call: Callable[[], T]) -> T:
    """``call()`` with the right to drive all of them. Not an ExitStack, which an exception of a signal handler can
    leave without what it has just entered."""
    if not sessions:
        return call()
    with sessions[0]._drive:
        return _driving(sessions[1:], call)


def _check_sampler(sampler: object) -> None:
    if sampler is not None and not isinstance(sampler, Sampler):
        raise checks.refuse("sampler", "must be a muser.Sampler or None", sampler)


def _tokens_of(pairs: list[tuple[Session, int]], vocab: int) -> list[int]:
    try:
        return [int(token) for token in checks.token_array("tokens", [token for _, token in pairs], vocab)]
    except ParameterError as error:  # of one token
        rule = f"must be a token id in 0..{vocab - 1}, not {checks.shown(error.value)}"
        raise ParameterError(
            f"rows[{error.index}].token {rule}", parameter="rows", index=error.index, field="token", value=error.value
        ) from None


def _pairs(rows: object) -> list[tuple[Session, int]]:
    rule = "must be a sequence of pairs (session, token)"
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes)):
        raise checks.refuse("rows", rule, rows)
    pairs = list(rows)
    for index, pair in enumerate(pairs):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], Session):
            raise checks.refuse("rows", "must be a pair (session, token)", pair, index)
    return [(session, token) for session, token in pairs]
