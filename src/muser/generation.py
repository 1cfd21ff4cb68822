"""The generation loop: prompt ids in, chunks of text out. It runs in the thread that asks for the next chunk;
every step is one native call without the GIL, in which its row meets the rows of other generations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator

from muser._core import Core, Prompt
from muser._queue import Ticket
from muser.errors import CancelledError, ParameterError
from muser.params import SamplingParams
from muser.results import Chunk, Completion, FinishReason, Timings, Usage
from muser.sampler import Sampler
from muser.session import Session


class Generation:
    """The state of one generation, from validated prompt to result. The caller iterates :meth:`chunks` once.

    ``open_session`` waits for a slot when the first chunk is asked for. ``ticket`` is its place in that line,
    if it waits in one: the way to end the wait from another thread.
    """

    def __init__(self, core: Core, prompt: Prompt, params: SamplingParams) -> None:
        self.core = core
        self.params = params
        self.ids = core.encode_for_generation(prompt)
        self.sampler = Sampler(params)
        self.clock = Clock()
        self.ticket: Ticket | None = None
        self.completion: Completion | None = None
        self._end_tokens = _end_tokens(core, params)
        self._tokens: list[int] = []
        self._text: list[str] = []
        self._finish: FinishReason = "cancelled"
        self._end_token: int | None = None
        self._steps = 0
        self._session: Session | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """From any thread: the wait, chunk or step in progress is the last one. Does not wait for it."""
        self._cancelled = True  # first: whoever gets a session after this looks here
        session, ticket = self._session, self.ticket
        if ticket is not None:
            ticket.cancel()
        if session is not None:
            session._cancel_quietly()

    def chunks(self, open_session: Callable[[], Session]) -> Generator[Chunk, None, None]:
        """Chunks with text, then exactly one with a finish_reason, which arrives after the slot is free."""
        from muser.text import Detokenizer  # with the tokenizers library behind it: not at import

        text = Detokenizer(self.core.tokenizer, skip_special=True)
        pending: list[int] = []
        sampled = self._sampled(open_session)
        try:
            for token in sampled:
                self._tokens.append(token)
                pending.append(token)
                piece = text.push(token)
                if piece:
                    self._text.append(piece)
                    yield Chunk(text=piece, tokens=tuple(pending))
                    pending.clear()
        except CancelledError:
            self._finish = "cancelled"
        finally:
            sampled.close()
        rest = text.flush()
        self._text.append(rest)
        self.completion = self.result()
        yield Chunk(text=rest, tokens=tuple(pending), finish_reason=self._finish)

    def _sampled(self, open_session: Callable[[], Session]) -> Generator[int, None, None]:
        """The tokens, one by one; sets how it ended, and frees the slot before it returns."""
        self.clock.start()
        if self.params.max_tokens == 0:
            self._finish = "length"
            return
        room = self.core.context - int(self.ids.size)
        limit = room if self.params.max_tokens is None else min(room, self.params.max_tokens)
        session = self._session = open_session()
        slot, sampler = session.slot, self.sampler._native
        try:
            if self._cancelled:
                return
            self.clock.lap("queue")
            with session._drive as engine:
                engine.prefill(slot, self.ids, None)
                token = engine.sample(slot, sampler)
            self.clock.lap("prefill")
            while token not in self._end_tokens:
                yield token
                if self._cancelled:
                    return
                if len(self._tokens) == limit:
                    self._finish = "length"
                    return
                with session._drive as engine:
                    token = engine.step(slot, token, sampler, None)
                self._steps += 1
            self._end_token = token
            self._finish = "stop" if token in self.params.stop_token_ids else "eos"
        finally:
            try:
                if "prefill" in self.clock.laps:
                    self.clock.lap("decode")
            finally:  # the slot comes back also when a signal handler raises in there
                self._session = None
                session._end()

    def result(self) -> Completion:
        """What there is until now."""
        prompt_tokens, completion_tokens = int(self.ids.size), len(self._tokens)
        laps = self.clock.laps
        return Completion(
            text="".join(self._text),
            tokens=tuple(self._tokens),
            finish_reason=self._finish,
            end_token=self._end_token,
            context_full=prompt_tokens + completion_tokens >= self.core.context,
            seed=self.sampler.seed,
            usage=Usage(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens),
            timings=Timings(
                queue_seconds=laps.get("queue", 0.0),
                prefill_seconds=laps.get("prefill", 0.0),
                decode_seconds=laps.get("decode", 0.0),
                prompt_tokens=prompt_tokens,
                decode_steps=self._steps,
            ),
        )


class Clock:
    """Names the time between consecutive moments."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._since: float | None = None

    def start(self) -> None:
        """The first call counts."""
        if self._since is None:
            self._since = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - (self._since or now)
        self._since = now


def _end_tokens(core: Core, params: SamplingParams) -> frozenset[int]:
    for token in params.stop_token_ids:
        if token >= core.vocab:
            raise ParameterError(
                f"stop_token_ids must hold ids in 0..{core.vocab - 1}, not {token}",
                parameter="stop_token_ids",
                value=token,
            )
    own: frozenset[int] = frozenset() if params.ignore_eos else core.tokenizer.stop_ids
    return own | frozenset(params.stop_token_ids)
