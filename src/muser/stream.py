"""What ``Model.stream`` returns: the handle of a generation that runs in the consumer's own thread."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from typing_extensions import Self

from muser import _checks as checks
from muser._muser import Turn
from muser._uncopied import Uncopied
from muser._watch import READER_GRACE_SECONDS, Away, ReaderWatch
from muser.errors import BusyError
from muser.generation import Generation
from muser.results import Chunk, Completion
from muser.session import Session


class Stream(Uncopied):
    """An iterator of :class:`Chunk`; afterwards :attr:`completion` holds the whole result.

    Nothing starts before the first ``next()``. The slot is free again when the last chunk arrives, when
    :meth:`close` is called, when the iterator is dropped, when iterating raises, or when the reader stays away from
    ``next()`` for too long: then it finds one last chunk with finish_reason "cancelled". Errors of the generation
    come out of ``next()``: OverloadedError, WaitTimeoutError, ClosedError, UnhealthyError, DeviceError.
    """

    # Nothing that runs refers to the handle, so dropping it ends the generation at once, without waiting for
    # the cycle collector.

    def __init__(
        self,
        generation: Generation,
        source: Session | Callable[[], Session],
        *,
        watch: ReaderWatch | None = None,
        grace: float = READER_GRACE_SECONDS,
    ) -> None:
        """``source``: the session, or what waits for one at the first ``next()``. ``watch``: who ends the stream when
        its reader is away for ``grace`` seconds; None if it is read by muser itself."""
        self._generation = generation
        self._lent = source if isinstance(source, Session) else None
        self._chunks = generation.chunks((lambda: source) if isinstance(source, Session) else source)
        self._turn = Turn(generation.core.check_process, busy="another thread is reading this stream")
        self._away: Away | None = None
        if watch is not None:
            self._away = Away(grace)
            self._away.expire = weakref.WeakMethod(self._expire)
        self._watch = watch
        self._expired = False
        self._left: Chunk | BaseException | None = None  # for a reader who comes back too late
        self._failed = False

    @property
    def seed(self) -> int:
        """The effective seed."""
        return self._generation.sampler.seed

    @property
    def completion(self) -> Completion | None:
        """The result once the stream has ended; after close(), what there was until then. None after an error."""
        return self._generation.completion

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Chunk:
        while True:
            try:
                with self._turn:
                    return self._advance()
            except BusyError:
                if not self._expired:
                    raise
            time.sleep(0.0005)  # the watch is just ending it

    def _advance(self) -> Chunk:
        if self._left is not None:
            left, self._left = self._left, None
            if isinstance(left, BaseException):
                raise left
            return left
        away = self._away
        try:
            if away is None:
                return next(self._chunks)
            away.since = None
            chunk = next(self._chunks)
            if chunk.finish_reason is not None:
                away.over = True
            else:
                away.since = time.monotonic()
                if (watch := self._watch) is not None:
                    self._watch = None
                    watch.add(away)
            return chunk
        except StopIteration:
            raise
        except BaseException:
            self._failed = True
            self._free()  # also when it was interrupted between two chunks
            raise

    def _expire(self) -> None:
        """The watch's thread, when the reader has been away too long. Makes the last chunk, and frees the slot."""
        self._expired = True
        with suppress(BusyError), self._turn:  # busy: the reader is back
            if self._away is None or self._away.over or not self._away.too_long:
                return
            self._away.over = True
            self._generation.cancel()
            try:
                self._left = next(self._chunks, None)
            except BaseException as error:  # it is the reader's
                self._failed = True
                self._left = error

    def save(self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes], *, key: bytes | None = None) -> None:
        """Between two chunks: writes all that it takes to go on from here, in this process or another, with
        ``Model.resume``. The stream itself can be read on. ``path`` and ``key`` as in :meth:`Session.save`.

        Raises:
            ParameterError("stream"): it has not begun, or has ended. ParameterError("logits_processors"): it has some.
            BusyError: another thread is reading it. FileAccessError.
        """
        from muser.saving import encryption, generations

        name, secret = checks.path(path), encryption.checked_key(key)
        with self._turn:
            generations.save(self._generation, name, secret)

    def close(self) -> None:
        """Ends the generation and frees its slot. From any thread: a ``next()`` that is in progress elsewhere
        returns within one chunk or step, with the last chunk and finish_reason "cancelled"."""
        generation = self._generation
        generation.cancel()
        if not generation.core.in_this_process or self._turn.taken:
            return
        with suppress(BusyError), self._turn:  # busy: the other thread ends it
            self._free()
            if generation.completion is None and not self._failed:
                generation.completion = generation.result()

    def _free(self) -> None:
        if self._away is not None:
            self._away.over = True
        self._chunks.close()
        if self._lent is not None:
            self._lent._end()  # a generator that never started ends nothing
        if self._generation.ticket is not None:
            self._generation.ticket.release()

    def __repr__(self) -> str:
        done = self._generation.completion
        return f"<muser.Stream {'not ended' if done is None else done.finish_reason}, seed {self.seed}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_failed"):
            self.close()


def run_to_end(stream: Stream) -> Completion:
    stream._generation.deliver_at_once()
    for _ in stream:
        pass
    assert stream.completion is not None  # a stream that ends without an error has one
    return stream.completion
