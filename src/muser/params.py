"""How a generation samples and when it stops. Names are OpenAI's and vLLM's; order of the filters is llama.cpp's."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable
from dataclasses import dataclass

from typing_extensions import TypedDict

from muser import _checks as checks
from muser.errors import ParameterError

MAX_SEED = 2**64 - 1
MAX_TOP_LOGPROBS = 20
_MAX_INT = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """Validated where it is built; immutable, so one instance can serve many threads.

    Raises:
        ParameterError: a value is outside its range; ``.parameter`` and ``.value`` name it.
        TypeError: an unknown keyword.
    """

    temperature: float = 1.0
    """Divides the logits after the filters. 0: always the most likely token (the first of equals). Finite, >= 0."""

    top_k: int = 0
    """Keep the k most likely tokens. 0 or -1: off; above the vocabulary: keeps all of it."""

    top_p: float = 1.0
    """Keep the fewest most likely tokens that hold this share of the probability. In (0, 1]; 1: off."""

    min_p: float = 0.0
    """Keep tokens at least this fraction as likely as the most likely one. In [0, 1]; 0: off."""

    seed: int | None = None
    """Seed of the random stream, 0..2**64 - 1. None: taken from the operating system, and reported in the result.
    The draws are those of Python's ``random.Random(seed).random()``, one a token."""

    max_tokens: int | None = None
    """Stop after this many tokens (finish_reason "length"). 0: an empty completion. None: until the model
    ends its answer or the context is full."""

    stop_token_ids: tuple[int, ...] = ()
    """Ids that end the generation (finish_reason "stop"), besides the model's own end tokens. Any iterable of
    ints is accepted. The ending token is not part of the result's tokens or text."""

    ignore_eos: bool = False
    """Treat the model's end tokens as ordinary tokens."""

    stop: tuple[str, ...] = ()
    """Strings that end the generation (finish_reason "stop") as soon as one is complete in its text, wherever its
    characters' tokens begin and end. A str or any iterable of str, none of them empty. Control tokens have no
    text; for them there is ``stop_token_ids``."""

    include_stop: bool = False
    """Keep what stopped it in the result: the stop string in the text, the id of ``stop_token_ids`` in the tokens."""

    min_tokens: int = 0
    """No end token, and no id of ``stop_token_ids``, is sampled among the first so many tokens, and ``stop`` is
    looked for only in the text after them. At most ``max_tokens``."""

    logprobs: bool = False
    """Report the log-probability of every token of the result, in the model's own distribution: softmax of the raw
    logits, before filters, penalties and temperature."""

    top_logprobs: int = 0
    """And those of the so many most likely tokens at its place, 0..20. Needs ``logprobs=True``."""

    echo: bool = False
    """The result begins with the prompt: text, tokens and, with ``logprobs``, their log-probabilities."""

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("temperature", checks.number("temperature", self.temperature, "must be finite and at least 0", 0, 3.4e38))
        put("top_k", checks.integer("top_k", self.top_k, -1, _MAX_INT))
        put("top_p", checks.number("top_p", self.top_p, "must be above 0 and at most 1", 0, 1, above=True))
        put("min_p", checks.number("min_p", self.min_p, "must be in 0..1", 0, 1))
        if self.seed is not None:
            put("seed", checks.integer("seed", self.seed, 0, MAX_SEED, none=True))
        if self.max_tokens is not None:
            put("max_tokens", checks.integer("max_tokens", self.max_tokens, 0, _MAX_INT, none=True))
        put("stop_token_ids", _token_ids(self.stop_token_ids))
        put("ignore_eos", checks.boolean("ignore_eos", self.ignore_eos))
        put("stop", _stop_strings(self.stop))
        put("include_stop", checks.boolean("include_stop", self.include_stop))
        put("min_tokens", checks.integer("min_tokens", self.min_tokens, 0, _MAX_INT))
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise checks.refuse("min_tokens", f"must be at most max_tokens ({self.max_tokens})", self.min_tokens)
        put("logprobs", checks.boolean("logprobs", self.logprobs))
        put("top_logprobs", checks.integer("top_logprobs", self.top_logprobs, 0, MAX_TOP_LOGPROBS))
        if self.top_logprobs and not self.logprobs:
            raise checks.refuse("top_logprobs", "must be 0 without logprobs=True", self.top_logprobs)
        put("echo", checks.boolean("echo", self.echo))


class SamplingOverrides(TypedDict, total=False):
    """Keywords of ``generate`` and its relatives that replace fields of the given :class:`SamplingParams`."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int | None
    max_tokens: int | None
    stop_token_ids: Iterable[int]
    ignore_eos: bool
    stop: str | Iterable[str]
    include_stop: bool
    min_tokens: int
    logprobs: bool
    top_logprobs: int
    echo: bool


def merged(params: SamplingParams | None, overrides: SamplingOverrides) -> SamplingParams:
    """``params`` (or the defaults) with the keywords on top. An unknown keyword is a TypeError."""
    if params is None:
        return SamplingParams(**overrides)  # type: ignore[arg-type]
    if not isinstance(params, SamplingParams):
        raise checks.refuse("params", "must be a SamplingParams or None", params)
    return dataclasses.replace(params, **overrides) if overrides else params  # type: ignore[arg-type]


def _stop_strings(value: object) -> tuple[str, ...]:
    rule = "must be a str or an iterable of str"
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        raise checks.refuse("stop", rule, value)
    strings = (value,) if isinstance(value, str) else tuple(value)
    for index, string in enumerate(strings):
        if not isinstance(string, str) or not string:
            raise checks.refuse("stop", "must be a str that is not empty", string, None if isinstance(value, str) else index)
    return tuple(dict.fromkeys(str(string) for string in strings))


def _token_ids(value: object) -> tuple[int, ...]:
    rule = "must be an iterable of token ids (integers, at least 0)"
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise checks.refuse("stop_token_ids", rule, value)
    for index, token in enumerate(ids := tuple(value)):
        try:
            checks.integer("stop_token_ids", token, 0, _MAX_INT)
        except ParameterError:
            raise checks.refuse("stop_token_ids", f"must be an integer in 0..{_MAX_INT}", token, index) from None
    return tuple(operator.index(token) for token in ids)
