"""What comes back: frozen dataclasses, one for each shape of result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length", "eos", "cancelled", "tool_calls"]
"""``stop``: a string of ``stop`` or a token of ``stop_token_ids``. ``eos``: an end token of the model. ``length``: ``max_tokens``, or the
context is full (then ``Completion.context_full`` is True). ``cancelled``: the consumer or its owner ended it, or
the reader of a stream stayed away for 5 seconds (of an AsyncStream: while 64 chunks waited for it). ``tool_calls``:
an answer in a chat that ended with calls of tools."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens that a generation cost."""

    prompt_tokens: int
    """Tokens of the prompt, BOS included."""

    completion_tokens: int
    """Tokens of the completion, without the one that ended it."""

    cached_tokens: int = 0
    """Tokens of the prompt that were not computed again: their rows were there, of an earlier prompt."""

    @property
    def total_tokens(self) -> int:
        """Prompt and completion."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, kw_only=True)
class Timings:
    """Wall-clock seconds of one generation."""

    queue_seconds: float
    """From the call until a slot was free."""

    prefill_seconds: float
    """From then until the whole prompt was in the context."""

    decode_seconds: float
    """From then until the last token, sampling and waiting for neighbours included."""

    prompt_tokens: int
    """Rows of the prefill: the prompt without ``Usage.cached_tokens``."""

    decode_steps: int
    """Rows decoded one by one: one fewer than the tokens sampled, the first of which the prefill pays for."""

    grammar_masks: int = 0
    """Masks of a grammar: one a token that was sampled."""

    grammar_mask_seconds: float = 0.0
    """What computing them took, in another thread while the device worked."""

    grammar_wait_seconds: float = 0.0
    """The part of it that the generation had to wait for."""

    @property
    def first_token_seconds(self) -> float:
        """From the call until the prompt was in the context; the first token follows within microseconds."""
        return self.queue_seconds + self.prefill_seconds

    @property
    def tokens_per_second(self) -> float:
        """Decode steps over decode time; 0 where there was none."""
        return self.decode_steps / self.decode_seconds if self.decode_seconds > 0 else 0.0

    @property
    def prefill_tokens_per_second(self) -> float:
        """Prompt tokens over prefill time; 0 where there was none."""
        return self.prompt_tokens / self.prefill_seconds if self.prefill_seconds > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class TokenLogprob:
    """One token and how likely it was, in the model's own distribution: softmax of the raw logits."""

    token: int

    logprob: float | None
    """Natural logarithm of its probability, given everything before it. None for the first token of an echoed
    prompt, before which there is nothing."""

    top: tuple[tuple[int, float], ...] = ()
    """The ``top_logprobs`` most likely tokens at its place, ``(id, logprob)``, most likely first and of equals the
    lower id first. The token itself is among them only if it is that likely."""


@dataclass(frozen=True, kw_only=True)
class Completion:
    """A finished generation."""

    text: str
    """The completion's text, after the prompt's with ``echo``. It ends before the stop string or token that ended
    it (with ``include_stop`` after it). Control tokens among ``tokens`` are left out of it, as
    ``model.detokenize(tokens, skip_special=True)`` does."""

    tokens: tuple[int, ...]
    """The completion's token ids, after the prompt's with ``echo``, without the id that ended it. Those that spelled
    a stop string are among them."""

    finish_reason: FinishReason

    end_token: int | None
    """The id that ended it ("stop" and "eos"), else None."""

    context_full: bool
    """True if it ended because prompt and completion fill the context."""

    seed: int
    """The effective seed: the same call with this seed gives the same tokens."""

    usage: Usage
    timings: Timings

    dropped_tokens: int = 0
    """Tokens that a full context lost on the way, of the prompt and of the completion (``context_policy="shift"``)."""

    stop_string: str | None = None
    """The string of ``stop`` that ended it."""

    logprobs: tuple[TokenLogprob, ...] | None = None
    """With ``logprobs``: one for each of ``tokens``."""

    @property
    def truncated(self) -> bool:
        """Whether the model did not have all tokens before it to the end."""
        return self.dropped_tokens > 0


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A piece of a streamed completion. Texts and tokens of all chunks, joined, are those of the Completion."""

    text: str
    """Whole characters only: a character that needs several tokens arrives with its last one. Text that may become a
    stop string arrives when it cannot any more. Empty at most in the last chunk."""

    tokens: tuple[int, ...]
    """The ids since the chunk before. May be empty in the last chunk."""

    finish_reason: FinishReason | None = None
    """Set in the last chunk, and only there."""

    logprobs: tuple[TokenLogprob, ...] | None = None
    """With ``logprobs``: one for each of ``tokens``."""


@dataclass(frozen=True, kw_only=True)
class Health:
    """Whether a model can still work."""

    state: Literal["ok", "unhealthy", "closed"]
    cause: str | None = None
    """Why it is unhealthy: the first failure whose effect on the device is unknown."""

    @property
    def ok(self) -> bool:
        """Whether the state is "ok"."""
        return self.state == "ok"
