"""The generation loop: prompt ids in, chunks of text out. It runs in the thread that asks for the next chunk;
every step is one native call without the GIL, in which its row meets the rows of other generations. (Greedy tokens come
without logits where nobody wants them, and several a call where nobody waits for them: deliver_at_once.)
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muser import _checks as checks
from muser._chain import takes_first_maximum
from muser._core import Core, Prompt
from muser._native import NativeEngine, Scores
from muser._queue import Ticket
from muser.errors import CancelledError, ParameterError
from muser.grammar.guide import Guide
from muser.params import SamplingParams
from muser.results import Chunk, Completion, FinishReason, Timings, TokenLogprob, Usage
from muser.sampler import Sampler
from muser.session import Session
from muser.shifting import fitting, shifted, turns
from muser.transcript import Transcript

MOST_AT_ONCE = 16  # tokens of one native call, kMostLinks in csrc/device/device.h


class Generation:
    """The state of one generation, from validated prompt to result. The caller iterates :meth:`chunks` once.

    ``open_session`` waits for a slot when the first chunk is asked for. ``ticket`` is its place in that line,
    if it waits in one: the way to end the wait from another thread. ``prompt_scores``, if they are known already.
    ``choose`` may put another token in the place of one that was sampled. ``is_abandoned``, asked between two tokens:
    whoever waits for the result is gone and could not cancel.
    """

    choose: Callable[[int], int] | None = None
    is_abandoned: Callable[[], bool] | None = None
    keep_turns = 0  # leading turns of the prompt that a shift keeps, unless params say how many tokens

    def __init__(
        self, core: Core, prompt: Prompt, params: SamplingParams, transcript: Transcript | None = None
    ) -> None:
        self.core = core
        self.params = params
        _check_keep(core, params)
        self.ids, self._dropped = self._fitting(core.encode(prompt))
        self.sampler = Sampler(params, tokenizer=core.tokenizer)
        self.sampler._accept(self.ids)
        self.clock = Clock()
        self.ticket: Ticket | None = None
        self.completion: Completion | None = None
        self.prompt_scores: list[Scores] | None = None
        self._end_tokens = _end_tokens(core, params)
        _check_ids(core, "logit_bias", [(None, token) for token, _ in params.logit_bias])
        breakers = enumerate(params.dry_sequence_breakers)
        _check_ids(core, "dry_sequence_breakers", [(i, token) for i, b in breakers if not isinstance(b, str) for token in b])
        constraint = None if params.grammar is None else core.grammars.constraint(params.grammar, self._end_tokens)
        self.guide = Guide(self.sampler, self._end_tokens, constraint)
        self._transcript = transcript or Transcript(core.tokenizer, params)
        self._logprob: TokenLogprob | None = None  # of the token sampled last
        self._finish: FinishReason = "cancelled"
        self._end_token: int | None = None
        self._steps = 0
        self._cached = 0
        self._filled = False  # the prompt is in the session
        self._session: Session | None = None
        self._cancelled = False
        self._resumed = False
        self._at_once = False

    def deliver_at_once(self) -> None:
        """Nobody reads before the end. Where a token is the first maximum of its logits and whatever can end the text is a
        token, the engine may then choose several in a call (csrc/session/greedy.cpp: by packed steps in company). Not with
        stop strings: what is behind one would be computed for nothing."""
        self._at_once = self._is_unguided and not self.params.stop

    @property
    def _is_unguided(self) -> bool:
        params = self.params
        return takes_first_maximum(params) and not params.logprobs and params.grammar is None and self.choose is None

    @property
    def _is_given_up(self) -> bool:
        return self._cancelled or (self.is_abandoned is not None and self.is_abandoned())

    @property
    def needs_session(self) -> bool:
        """Nothing is computed for an empty completion, unless the prompt is to be scored."""
        return self.params.max_tokens != 0 or self._scores_prompt

    @property
    def _scores_prompt(self) -> bool:
        return self.params.echo and self.params.logprobs

    def resume(self, tokens: Sequence[int], sampler_state: bytes, logprobs: Sequence[TokenLogprob]) -> None:
        """Goes on after these tokens, all of which were delivered; the session holds the prompt and all of them but the
        last, which was only sampled. Raises ParameterError where they cannot have been generated."""
        self._echo([])
        for token in tokens:
            self._transcript.add(token)
        if self._transcript.stop_string is not None:
            raise ParameterError("tokens go on after a stop string", parameter="tokens")
        self._transcript.resume(logprobs)
        self._resume_grammar()
        self.sampler.restore(sampler_state)
        self._resumed = True

    def state(self) -> dict[str, Any] | None:
        """What a file must hold of it, between two chunks, besides what every generation has. JSON."""
        return None

    def _resume_grammar(self) -> None:
        if self.guide.constraint is not None:
            self.guide.constraint.replay(self._transcript.tokens[:-1])
            self.guide.sampled()

    def cancel(self) -> None:
        """From any thread: the wait, chunk or step in progress is the last one. Does not wait for it."""
        self._cancelled = True  # first: whoever gets a session after this looks here
        session, ticket = self._session, self.ticket
        if ticket is not None:
            ticket.cancel()
        if session is not None:
            session._cancel_quietly()

    def chunks(self, open_session: Callable[[], Session], *, release: bool = True) -> Generator[Chunk, None, None]:
        """Chunks with text, then exactly one with a finish_reason, which arrives after the slot is free (unless
        ``release`` is off). Rows that the session has already must be the beginning of the prompt."""
        transcript = self._transcript
        sampled = self._sampled(open_session, release)
        try:
            for token in sampled:
                chunk = transcript.add(token, self._logprob)
                if chunk is not None:
                    yield chunk
                if transcript.stop_string is not None:
                    self._finish = "stop"
                    break
        except CancelledError:
            self._finish = "cancelled"
        finally:
            sampled.close()
        last = transcript.end(self._finish)
        self.completion = self.result()
        yield last

    def _sampled(self, open_session: Callable[[], Session], release: bool) -> Generator[int, None, None]:
        """The tokens, one by one; sets how it ended, and frees the slot before it returns."""
        self.clock.start()
        if not self.needs_session:
            self._echo([])
            self._finish = "length"
            return
        room = self.core.context - (0 if self.core.shifts else int(self.ids.size))
        limit = room if self.params.max_tokens is None else self.params.max_tokens
        if not self.core.shifts:
            limit = min(room, limit)
        session = self._session = open_session()
        slot, sampler, tokens = session.slot, self.sampler, self._transcript.tokens
        try:
            if self._is_given_up:
                return
            self.clock.lap("queue")
            ahead: deque[int | None] = deque()  # chosen, and not looked at
            suppressed, unguided = self.params.min_tokens > 0, self._is_unguided
            if suppressed:
                sampler._native.suppress(sorted(self._end_tokens))
            token: int | None
            if self._resumed:
                token, self._cached = tokens[-1], int(self.ids.size)
            else:
                with session._drive as engine:
                    self.guide.begin()
                    self._fill(engine, slot)
                    self._echo(self.prompt_scores or [])
                    if limit == 0:
                        self._finish = "length"
                        return
                    token = self._taken(engine, slot, self.guide.sample(engine, slot))
            self.clock.lap("prefill")
            while token is not None and token not in self._end_tokens:
                if not self._resumed:
                    yield token
                self._resumed = False
                if self._is_given_up:
                    return
                if len(tokens) == limit:
                    self._finish = "length"
                    return
                if suppressed and len(tokens) >= self.params.min_tokens:
                    suppressed = False
                    sampler._native.suppress([])
                if not ahead:
                    with session._drive as engine:
                        if self.core.shifts and engine.position(slot) == self.core.context:
                            self._shift(engine, slot)
                        if unguided and not suppressed:
                            most = min(MOST_AT_ONCE, limit - len(tokens)) if self._at_once else 1
                            ahead.extend(self._chosen(engine, slot, token, most, keeps_logits=not release))
                        else:
                            ahead.append(self._taken(engine, slot, self.guide.step(engine, slot, token)))
                token = ahead.popleft()
                self._steps += 1
            self._end_token = token
            self._finish = "stop" if token in self.params.stop_token_ids else "eos"
            if self.params.include_stop and token is not None and self._finish == "stop":
                yield token
        finally:
            try:
                if "prefill" in self.clock.laps:
                    self.clock.lap("decode")
            finally:  # the slot comes back also when a signal handler raises in there
                self._session = None
                if release:
                    session._end()

    def fill(self, session: Session) -> None:
        """Puts the prompt into a session, for itself or for whom the session is forked."""
        with session._drive as engine:
            self._fill(engine, session.slot)

    def _fill(self, engine: NativeEngine, slot: int) -> None:
        if self._filled:
            return
        self._filled = True
        if self._scores_prompt and self.prompt_scores is None:
            self.prompt_scores = engine.prefill_scored(slot, self.ids, self.params.top_logprobs, None)
        else:
            self._cached = engine.position(slot)  # of a fork
            rest = self.ids[self._cached :]
            if rest.size:
                self._cached += engine.prefill(slot, rest, None, True)

    def _keep(self, tokens: NDArray[np.int32]) -> int:
        """Leading tokens that a shift leaves where they are."""
        if self.params.keep is not None:
            return self.params.keep
        begins = int(tokens[0] == self.core.tokenizer.bos_id)
        return max(begins, turns(tokens, self.keep_turns, self.core.tokenizer.stop_ids))

    def _fitting(self, ids: NDArray[np.int32]) -> tuple[NDArray[np.int32], int]:
        """The prompt, and how many of its tokens had to go."""
        context = self.core.context
        if ids.size < context:
            return ids, 0
        keep = self._keep(ids)
        wanted = context // 4 if self.params.max_tokens is None else min(context // 4, self.params.max_tokens)
        room = context - max(wanted, 1)
        if not self.core.shifts or keep >= room:
            raise self.core.too_long(ids)
        kept = fitting(ids, keep, room, self.core.tokenizer.stop_ids)
        return kept, int(ids.size - kept.size)

    def _shift(self, engine: NativeEngine, slot: int) -> None:
        tokens = engine.tokens(slot)
        kept = shifted(tokens, min(self._keep(tokens), tokens.size - 1), self.core.tokenizer.stop_ids)
        engine.shift(slot, kept, None)
        self._dropped += int(tokens.size - kept.size)

    def _echo(self, scores: Sequence[Scores]) -> None:
        if self.params.echo:
            ids: list[int] = self.ids.tolist()
            logprobs = [TokenLogprob(token=ids[0], logprob=None)]
            logprobs += [TokenLogprob(token=token, logprob=own, top=top) for token, (own, top) in zip(ids[1:], scores)]
            self._transcript.echo(ids, logprobs if self.params.logprobs else ())

    def _chosen(self, engine: NativeEngine, slot: int, token: int, most: int, *, keeps_logits: bool) -> list[int]:
        """Up to ``most`` tokens, each the first maximum of its logits. A session that is released needs none of them."""
        chosen = engine.greedy(slot, token, most, sorted(self._end_tokens), None, keeps_logits)
        self.sampler._accept(np.array(chosen, np.int32))
        return chosen

    def _taken(self, engine: NativeEngine, slot: int, token: int | None) -> int | None:
        """The sampled token, or what was chosen in its place."""
        if self.choose is not None and token is not None:
            token = self.choose(token)
        if self.params.logprobs and token is not None:
            own, top = engine.logprobs(slot, token, self.params.top_logprobs)
            self._logprob = TokenLogprob(token=token, logprob=own, top=top)
        return token

    def result(self) -> Completion:
        """What there is until now."""
        said, laps = self._transcript, self.clock.laps
        prompt_tokens, completion_tokens = int(self.ids.size), len(said.tokens)
        return Completion(
            text="".join(said.delivered),
            tokens=said.prompt + tuple(said.tokens),
            finish_reason=self._finish,
            stop_string=said.stop_string,
            end_token=self._end_token,
            context_full=not self.core.shifts and prompt_tokens + completion_tokens >= self.core.context,
            dropped_tokens=self._dropped,
            seed=self.sampler.seed,
            usage=Usage(
                prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cached_tokens=self._cached
            ),
            timings=Timings(
                queue_seconds=laps.get("queue", 0.0),
                prefill_seconds=laps.get("prefill", 0.0),
                decode_seconds=laps.get("decode", 0.0),
                prompt_tokens=prompt_tokens - self._cached,
                decode_steps=self._steps,
                grammar_masks=self.guide.masks,
                grammar_mask_seconds=self.guide.mask_seconds,
                grammar_wait_seconds=self.guide.wait_seconds,
            ),
            logprobs=tuple(said.logprobs) if self.params.logprobs else None,
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
        self.laps[name] = self.laps.get(name, 0.0) + now - (self._since or now)
        self._since = now


def _check_keep(core: Core, params: SamplingParams) -> None:
    if params.keep is not None and not (core.shifts and params.keep < core.context):
        rule = f"must be below the context of {core.context}" if core.shifts else 'needs context_policy="shift"'
        raise ParameterError(f"keep {rule}, not {params.keep}", parameter="keep", value=params.keep)


def _end_tokens(core: Core, params: SamplingParams) -> frozenset[int]:
    _check_ids(core, "stop_token_ids", enumerate(params.stop_token_ids))
    own: frozenset[int] = frozenset() if params.ignore_eos else core.tokenizer.stop_ids
    return own | frozenset(params.stop_token_ids)


def _check_ids(core: Core, name: str, tokens: Iterable[tuple[int | None, int]]) -> None:
    """``tokens``: each after the index of the element that it is, or is in."""
    for index, token in tokens:
        if token >= core.vocab:
            raise checks.refuse(name, f"must hold ids in 0..{core.vocab - 1}", token, index)
