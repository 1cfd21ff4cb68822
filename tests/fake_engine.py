"""An engine of Python with the interface of ``_muser.Engine``, and a tokenizer of bytes, for tests of everything
above them: no model, no device, controllable delays and failures. Its logits depend on all tokens of the slot and
on nothing else, so that mixed-up slots give wrong text.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import muser
from muser._core import closed_error
from muser.errors import (
    BusyError,
    CancelledError,
    ContextFullError,
    LogitsError,
    ParameterError,
    UnhealthyError,
    WaitTimeoutError,
)

BOS, EOS, EOT = 256, 257, 258
VOCAB = 260
_TICK = 0.0005


class FakeTokenizer:
    """One token a byte, and three control tokens."""

    vocab_size = VOCAB
    bos_id, eos_id, eot_id = BOS, EOS, EOT
    stop_ids = frozenset({EOS, EOT})
    control_ids = frozenset(range(256, VOCAB))
    add_space_prefix = False

    def __init__(self, *, add_bos: bool = True) -> None:
        self.add_bos = add_bos

    def encode(self, text: str, *, add_bos: bool | None = None, parse_special: bool = False) -> list[int]:
        ids = list(text.encode())
        return [BOS, *ids] if (self.add_bos if add_bos is None else add_bos) else ids

    def decode(self, ids, *, skip_special: bool = False, errors: str = "replace") -> str:
        return b"".join(self.token_bytes(t) for t in ids if t < 256).decode(errors=errors)

    def token_bytes(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else f"<{token}>".encode()

    def pieces(self) -> list[bytes]:
        return [self.token_bytes(token) for token in range(VOCAB)]

    def is_control(self, token: int) -> bool:
        return token >= 256


class _Slot:
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.logits: np.ndarray | None = None
        self.cancelled = False
        self.lock = threading.Lock()


class FakeEngine:
    """``delay``: seconds of every prefill chunk and step. ``next_token(tokens)``: the certain next token (None:
    random letters). ``fail(operation, slot, tokens)`` may raise, before anything is installed. ``spoil(logits,
    tokens)`` may change a row of logits before it is kept."""

    width = 3
    architecture = "fake"
    device_name = "fake"
    device_description = "no device"
    host_threads = 0

    def __init__(
        self,
        *,
        slots: int = 4,
        context: int = 512,
        delay: float = 0.0,
        chunk: int = 64,
        next_token: Callable[[list[int]], int] | None = None,
        fail: Callable[[str, int, list[int]], None] | None = None,
        spoil: Callable[[np.ndarray, list[int]], None] | None = None,
    ) -> None:
        self.slots, self.context, self.vocab = slots, context, VOCAB
        self.delay, self.chunk = delay, chunk
        self.next_token, self.fail, self.spoil = next_token, fail, spoil
        self.cause: str | None = None
        self.log: list[tuple[Any, ...]] = []
        self.steps = 0
        self.active = 0
        self._slots = [_Slot() for _ in range(slots)]
        self._closed = False
        self._count = threading.Lock()

    # -- what the engine offers --------------------------------------------------------------------------------

    def prefill(self, slot, tokens, timeout, reuse=False) -> int:
        assert tokens.dtype == np.int32 and tokens.ndim == 1
        with self._use(slot) as state:
            if len(state.tokens) + len(tokens) > self.context:
                raise ContextFullError(
                    f"{len(tokens)} more tokens at position {len(state.tokens)} do not fit into a context of {self.context}",
                    position=len(state.tokens),
                    capacity=self.context,
                )
            deadline = None if timeout is None else time.monotonic() + timeout
            for start in range(0, len(tokens), self.chunk):
                piece = tokens[start : start + self.chunk].tolist()
                self._work("prefill", slot, state, deadline)
                state.tokens += piece
            state.logits = self._logits(state.tokens)
        return 0

    def reusable(self, slot, tokens) -> int:
        retained = self._state(slot).tokens
        return next((i for i, (a, b) in enumerate(zip(retained, tokens)) if a != b), min(len(retained), len(tokens)))

    def retained(self, slot) -> int:
        return len(self._state(slot).tokens)

    def decode(self, slot, token, timeout) -> None:
        with self._use(slot) as state:
            if len(state.tokens) >= self.context:
                raise ContextFullError("full", position=len(state.tokens), capacity=self.context)
            self._work("decode", slot, state, None if timeout is None else time.monotonic() + timeout)
            state.tokens.append(token)
            state.logits = self._logits(state.tokens)
            with self._count:
                self.steps += 1

    def decode_group(self, slots, tokens, timeout) -> None:
        self.log.append(("group", tuple(slots), tuple(tokens)))
        for slot, token in zip(slots, tokens):
            self.decode(slot, token, timeout)

    def sample(self, slot, sampler, mask=None) -> int:
        logits = self._slots[slot].logits
        if logits is None:
            raise ParameterError("no logits", parameter="slot", value=slot)
        try:
            return sampler.sample(logits, mask)
        except ParameterError as error:  # as the real engine: the caller did not make them
            if error.parameter != "logits":
                raise
            raise LogitsError(str(error), index=error.index) from None

    def step(self, slot, token, sampler, timeout, mask=None) -> int:
        self.decode(slot, token, timeout)
        return self.sample(slot, sampler, mask)

    def greedy(self, slot, token, n, stop, timeout, keeps_logits=True) -> list[int]:
        sampler, run = muser.Sampler(temperature=0), []
        for _ in range(max(1, min(n, self.context - self.position(slot)))):
            if run and self._slots[slot].cancelled:
                break
            token = self.step(slot, token, sampler, timeout)
            run.append(token)
            if token in stop:
                break
        return run

    def logprobs(self, slot, token, top):
        return _scores(self._state(slot).logits, token, top)

    def prefill_scored(self, slot, tokens, top, timeout):
        scores = []
        for index in range(len(tokens)):
            self.prefill(slot, tokens[index : index + 1], timeout)
            if index + 1 < len(tokens):
                scores.append(self.logprobs(slot, int(tokens[index + 1]), top))
        return scores

    def embed(self, slot, tokens, pooling, timeout):
        self.prefill(slot, tokens, timeout)
        rows = np.array([[t, t * t % 7, 1] for t in tokens.tolist()], np.float32)
        return {"mean": rows.mean(0), "last": rows[-1], "cls": rows[0]}[pooling]

    def fork(self, source, into, timeout) -> None:
        with self._use(source) as state, self._use(into) as copy:
            self._work("fork", into, copy, None)
            copy.tokens, copy.logits = list(state.tokens), state.logits
        self.log.append(("fork", source, into))

    def logits(self, slot):
        return self._state(slot).logits

    def tokens(self, slot):
        return np.array(self._state(slot).tokens, np.int32)

    def position(self, slot) -> int:
        return len(self._state(slot).tokens)

    def rewind(self, slot, to) -> None:
        with self._use(slot) as state:
            if to > len(state.tokens):
                raise ParameterError("to", parameter="to", value=to)
            del state.tokens[to:]
            state.logits = None

    def reset(self, slot) -> None:
        with self._use(slot) as state:
            state.tokens, state.logits = [], None
        self.log.append(("reset", slot))

    def cancel(self, slot) -> None:
        self._state(slot).cancelled = True

    def clear_cancel(self, slot) -> None:
        self._state(slot).cancelled = False

    def leave_decode(self, slot) -> None:
        self._state(slot)
        self.log.append(("leave", slot))

    def memory_plan(self):
        return {"slots": self.slots, "context": self.context}

    def stats(self):
        self._state(0)
        return {"groups_by_width": [self.steps, 0, 0, 0]}

    def unhealthy_cause(self):
        self._state(0)
        return self.cause

    def close(self, grace: float = 5.0) -> bool:
        self._closed = True
        deadline = time.monotonic() + grace
        while self.active and time.monotonic() < deadline:
            time.sleep(_TICK)
        return not self.active

    # -- how it works ------------------------------------------------------------------------------------------

    def _state(self, slot: int) -> _Slot:
        if self._closed:
            raise closed_error()
        return self._slots[slot]

    def _use(self, slot: int) -> _Use:
        return _Use(self, self._state(slot))

    def _work(self, operation: str, slot: int, state: _Slot, deadline: float | None) -> None:
        until = time.monotonic() + self.delay
        while True:
            if self._closed:
                raise closed_error()
            if state.cancelled:
                raise CancelledError("the session was cancelled")
            if self.cause:
                raise UnhealthyError("unhealthy", cause=self.cause)
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise WaitTimeoutError("the deadline passed")
            if now >= until:
                break
            time.sleep(min(_TICK, until - now))
        if self.fail is not None:
            self.fail(operation, slot, list(state.tokens))

    def _logits(self, tokens: list[int]) -> np.ndarray:
        logits = np.full(VOCAB, -np.inf, np.float32)
        if self.next_token is not None:
            logits[self.next_token(tokens)] = 0
        else:
            seed = hash(tuple(tokens)) & 0xFFFFFFFF
            logits[97:123] = np.random.default_rng(seed).standard_normal(26)
        if self.spoil is not None:
            self.spoil(logits, tokens)
        logits.flags.writeable = False
        return logits


def _scores(logits: np.ndarray, token: int, top: int):
    with np.errstate(divide="ignore"):
        logprobs = np.log(np.exp(logits.astype(np.float64)) / np.exp(logits.astype(np.float64)).sum())
    best = np.argsort(-logprobs, kind="stable")[:top]
    return float(logprobs[token]), tuple((int(t), float(logprobs[t])) for t in best)


class _Use:
    def __init__(self, engine: FakeEngine, state: _Slot) -> None:
        self.engine, self.state = engine, state

    def __enter__(self) -> _Slot:
        if not self.state.lock.acquire(blocking=False):
            raise BusyError("the fake engine was called twice for one slot")
        with self.engine._count:
            self.engine.active += 1
        return self.state

    def __exit__(self, *_: object) -> None:
        with self.engine._count:
            self.engine.active -= 1
        self.state.lock.release()


def fake_model(*, add_bos: bool = True, **options: Any) -> muser.Model:
    """A model on a FakeEngine, which is ``model.engine`` for the test to control."""
    engine = FakeEngine(**options)
    model = muser.Model(engine, lambda: FakeTokenizer(add_bos=add_bos))  # type: ignore[arg-type]
    model.engine = engine  # type: ignore[attr-defined]
    return model


def reply(text: str | bytes, end: int | None = EOS) -> Callable[[list[int]], int]:
    """A ``next_token`` that answers with these bytes, whatever the prompt, and then ends. It finds the prompt's end
    at the first byte 0, so prompts end with "\\0"."""
    answer = list(text.encode() if isinstance(text, str) else text)

    def next_token(tokens: list[int]) -> int:
        done = len(tokens) - tokens.index(0) - 1 if 0 in tokens else 0
        if done < len(answer):
            return answer[done]
        return answer[-1] if end is None else end

    return next_token


def wait_until(condition: Callable[[], bool], timeout: float = 30.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("the condition did not come true in time")
        time.sleep(0.001)


def free_slots(model: muser.Model) -> int:
    return model.slots.stats().free
