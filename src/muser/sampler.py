"""Sampling outside the generation loop, for callers who drive a Session themselves; the loop uses it too."""

from __future__ import annotations

import dataclasses
import math
import os
import struct
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, Unpack

from muser import _chain
from muser import _checks as checks
from muser.errors import ParameterError
from muser.params import SamplingOverrides, SamplingParams, merged

if TYPE_CHECKING:
    from muser._native import NativeEngine
    from muser.text import Tokenizer

_MAX_VOCAB = 2**31 - 1


class Sampler:
    """Turns logits into tokens by the rules of :class:`SamplingParams`; owns the random streams and what the steps
    remember.

    For one sequence and one thread at a time. Where a generation stops and what it reports (from ``max_tokens`` on) is
    not its business. Same parameters, seed, logits and accepted tokens: same tokens. ``params`` is the SamplingParams in
    use, ``seed`` the effective seed: the given one, or the one that was drawn. ``tokenizer`` says which tokens the strings
    of ``dry_sequence_breakers`` are: ``model.tokenizer``.
    """

    def __init__(
        self,
        params: SamplingParams | None = None,
        *,
        tokenizer: Tokenizer | None = None,
        **overrides: Unpack[SamplingOverrides],
    ) -> None:
        self.params: SamplingParams = merged(params, overrides)
        """The parameters as they were given, defaults filled in."""

        self.seed: int = effective_seed(self.params)
        """The effective seed: the given one, or the one that was drawn."""

        self._native = _chain.native_sampler(self.params, self.seed, _chain.breaker_tokens(self.params, tokenizer))
        self._seen = _TokenLog()  # for the processors

    def sample(self, logits: NDArray[np.float32], mask: NDArray[np.uint32] | None = None) -> int:
        """The next token for float32 logits ``[vocab]``; it is accepted.

        Other real numbers are converted. ``mask`` allows token i by bit ``i % 32`` of word ``i // 32``, uint32
        ``[ceil(vocab / 32)]``; None: all. +inf is certain. Raises ParameterError("logits") for a NaN or a number beyond
        float32 (its ``.index`` says where), for a row without a token, that is empty or all -inf, and for what is no 1-D
        array of real numbers, masked arrays included; ParameterError("logits_processors") where they left no number
        to sample; LogitsError if mask and logit_bias leave no token. The random streams have not moved then.
        """
        return self._sample(checks.logits_array(logits), checks.token_mask(mask))

    def accept(self, tokens: Iterable[int]) -> None:
        """Tokens that were not sampled here, the prompt first of all: what penalties, DRY and processors look back at."""
        self._accept(checks.token_array("tokens", tokens, _MAX_VOCAB))

    def state(self) -> bytes:
        """The random streams, what mirostat and adaptive-p remember, and the tokens looked back at: what it takes to
        go on exactly here, in this process or another. Not the parameters, and nothing that processors keep."""
        native = self._native.state()
        if not self.params.logits_processors:
            return native
        body = struct.pack("<Q", len(native)) + native + self._seen.tokens.astype("<i4").tobytes()
        return body + struct.pack("<I", zlib.crc32(body))

    def restore(self, state: bytes) -> None:
        """Goes on where ``state`` was taken. ParameterError("state") if it is damaged, or of a sampler with other
        parameters or another seed; nothing changes then."""
        if not isinstance(state, bytes):
            raise checks.refuse("state", "must be bytes", state)
        if not self.params.logits_processors:
            self._native.restore(state)
            return
        body, native_end = state[:-4], 8 + int.from_bytes(state[:8], "little")
        if len(state) < 12 or struct.pack("<I", zlib.crc32(body)) != state[-4:] or (len(body) - native_end) % 4 or native_end > len(body):
            raise ParameterError("state is not the state of a sampler with processors", parameter="state")
        self._native.restore(body[8:native_end])
        self._seen = _TokenLog()
        self._seen.extend(np.frombuffer(body[native_end:], "<i4").astype(np.int32))

    def copy(self) -> Self:
        """An independent twin in the same state, with the same processors."""
        twin = object.__new__(type(self))
        twin.params, twin.seed, twin._native, twin._seen = self.params, self.seed, self._native.copy(), _TokenLog()
        twin._seen.extend(self._seen.tokens)
        return twin

    # -- for the generation loop and Session, whose arguments are checked --------------------------------------

    def _accept(self, tokens: NDArray[np.int32]) -> None:
        self._native.accept(tokens)
        if self.params.logits_processors:
            self._seen.extend(tokens)

    def _sample(self, row: NDArray[np.float32], mask: NDArray[np.uint32] | None) -> int:
        if not self.params.logits_processors or not _has_token(row):
            return self._native.sample(row, mask)
        row = row.copy()
        for processor in self.params.logits_processors:
            if processor(self._seen.tokens, row) is not None:
                raise ParameterError(
                    "logits_processors must work in place and return None: what they return is not used",
                    parameter="logits_processors",
                )
        try:
            token = self._native.sample(row, mask)
        except ParameterError as error:
            if error.parameter != "logits":
                raise
            raise ParameterError(
                f"logits_processors left nothing to sample: {error}", parameter="logits_processors", index=error.index
            ) from None
        self._seen.extend(np.array([token], np.int32))
        return token

    def _sample_slot(self, engine: NativeEngine, slot: int, mask: NDArray[np.uint32] | None = None) -> int:
        """From the slot's retained logits."""
        if self.params.logits_processors:
            row = engine.logits(slot)
            if row is not None and _has_token(row):
                return self._sample(row, mask)
        return engine.sample(slot, self._native, mask)

    def _step_slot(self, engine: NativeEngine, slot: int, token: int, mask: NDArray[np.uint32] | None = None) -> int:
        """Decodes ``token`` and samples the next one."""
        if not self.params.logits_processors:
            return engine.step(slot, token, self._native, None, mask)
        engine.decode(slot, token, None)
        return self._sample_slot(engine, slot, mask)

    def __repr__(self) -> str:
        """With what is not as by default."""
        fields = [(f, getattr(self.params, f.name)) for f in dataclasses.fields(SamplingParams) if f.name != "seed"]
        changed = [f"{field.name}={checks.shown(value)} " for field, value in fields if value != field.default]
        return f"<muser.Sampler {''.join(changed)}seed={self.seed}>"


def effective_seed(params: SamplingParams) -> int:
    """The given seed, or 64 bits from the operating system."""
    return int.from_bytes(os.urandom(8), "little") if params.seed is None else params.seed


class _TokenLog:
    """Tokens that grow by one, and a view of all of them that costs nothing."""

    def __init__(self) -> None:
        self._buffer: NDArray[np.int32] = np.empty(256, np.int32)
        self._size = 0

    @property
    def tokens(self) -> NDArray[np.int32]:
        view = self._buffer[: self._size]
        view.flags.writeable = False
        return view

    def extend(self, tokens: NDArray[np.int32]) -> None:
        size = self._size + len(tokens)
        if size > len(self._buffer):
            grown = np.empty(2 * size, np.int32)
            grown[: self._size] = self._buffer[: self._size]
            self._buffer = grown
        self._buffer[self._size : size] = tokens
        self._size = size


def _has_token(row: NDArray[np.float32]) -> bool:
    """Whether it can be sampled; if not, the native sampler says why."""
    return bool(row.size) and row.max() > -math.inf  # a NaN compares false
