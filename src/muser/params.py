"""How a generation samples and when it stops. Names are OpenAI's, vLLM's and llama.cpp's; the order of the samplers is
llama.cpp's. docs/sampling.md has the formulas."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import TypedDict

from muser import _chain
from muser import _checks as checks
from muser._chain import LogitsProcessor
from muser.grammar import Grammar

MAX_SEED = 2**64 - 1
MAX_TOP_LOGPROBS = 20
_MAX_INT = 2**31 - 1
_MOST = checks.MOST

_NUMBERS = (  # name, rule, lowest, highest, whether the lowest itself is refused
    ("dynatemp_range", "must be in 0..3.4e38", 0.0, _MOST, False),
    ("dynatemp_exponent", "must be above 0 and at most 3.4e38", 0.0, _MOST, True),
    ("typical_p", "must be above 0 and at most 1", 0.0, 1.0, True),
    ("top_n_sigma", "must be in 0..3.4e38", 0.0, _MOST, False),
    ("xtc_probability", "must be in 0..1", 0.0, 1.0, False),
    ("xtc_threshold", "must be above 0 and at most 1", 0.0, 1.0, True),
    ("repetition_penalty", "must be above 0 and at most 3.4e38", 0.0, _MOST, True),
    ("presence_penalty", "must be in -3.4e38..3.4e38", -_MOST, _MOST, False),
    ("frequency_penalty", "must be in -3.4e38..3.4e38", -_MOST, _MOST, False),
    ("dry_multiplier", "must be in 0..3.4e38", 0.0, _MOST, False),
    ("dry_base", "must be in 1..3.4e38", 1.0, _MOST, False),
    ("mirostat_tau", "must be in 0..3.4e38", 0.0, _MOST, False),
    ("mirostat_eta", "must be in 0..3.4e38", 0.0, _MOST, False),
    ("adaptive_target", "must be in 0..1, or negative (from -3.4e38) for off", -_MOST, 1.0, False),
    ("adaptive_decay", "must be in 0..0.99", 0.0, 0.99, False),
)
_INTEGERS = (
    ("penalty_last_n", -1, _MAX_INT),
    ("dry_allowed_length", 0, _MAX_INT),
    ("dry_penalty_last_n", -1, _MAX_INT),
    ("mirostat", 0, 2),
)


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """Validated where it is built; immutable, so one instance can serve many threads.

    Raises:
        ParameterError: a value is outside its range; ``.parameter`` and ``.value`` name it.
        TypeError: an unknown keyword.
    """

    temperature: float = 1.0
    """Divides the logits after the filters. 0: always the most likely token (the first of equals) of what bias,
    penalties and DRY made of the logits, without any filter or random number. In [0, 3.4e38]."""

    top_k: int = 0
    """Keep the k most likely tokens. 0 or -1: off; above the vocabulary: keeps all of it."""

    top_p: float = 1.0
    """Keep the fewest most likely tokens that hold this share of the probability. In (0, 1]; 1: off."""

    min_p: float = 0.0
    """Keep tokens at least this fraction as likely as the most likely one. In [0, 1]; 0: off."""

    dynatemp_range: float = 0.0
    """Lets the temperature follow the entropy: from ``temperature`` minus this (0 at least) where the model is certain,
    to ``temperature`` plus this where it knows nothing. >= 0; 0: off."""

    dynatemp_exponent: float = 1.0
    """Above 1, the temperature rises late; below 1, early. > 0."""

    typical_p: float = 1.0
    """Keep the tokens whose surprise is nearest to the expected one, until they hold this share of the probability.
    In (0, 1]; 1: off."""

    top_n_sigma: float = 0.0
    """Keep logits within so many standard deviations of the best one. >= 0; 0: off."""

    xtc_probability: float = 0.0
    """How often XTC acts: it removes all tokens of at least ``xtc_threshold`` but the least likely of them. In [0, 1]."""

    xtc_threshold: float = 0.1
    """See ``xtc_probability``. In (0, 1]; above 0.5: off."""

    repetition_penalty: float = 1.0
    """Divides positive logits, and multiplies others, of tokens among the last ``penalty_last_n``, those of the prompt
    included. > 0; 1: off."""

    presence_penalty: float = 0.0
    """Subtracted from the logits of tokens among the last ``penalty_last_n``, those of the prompt included."""

    frequency_penalty: float = 0.0
    """The same, once for each time they occur there."""

    penalty_last_n: int = 64
    """How many tokens the three penalties look back at. 0: none; -1: all."""

    dry_multiplier: float = 0.0
    """DRY: a token that would go on repeating a passage of ``length`` tokens loses
    ``dry_multiplier * dry_base ** (length - dry_allowed_length)`` of its logit. >= 0; 0: off."""

    dry_base: float = 1.75
    """See ``dry_multiplier``. >= 1."""

    dry_allowed_length: int = 2
    """Repeated passages shorter than this cost nothing. >= 0."""

    dry_penalty_last_n: int = -1
    """How many tokens DRY looks back at, those of the prompt included. 0: none; -1: all."""

    dry_sequence_breakers: tuple[str | tuple[int, ...], ...] = ("\n", ":", '"', "*")
    """No repetition reaches over these strings or sequences of token ids."""

    mirostat: int = 0
    """Mirostat 1 or 2 chooses the token, in the place of the filters (which must be off) and the draw. 0: off."""

    mirostat_tau: float = 5.0
    """The surprise that mirostat steers to, in bits a token. >= 0."""

    mirostat_eta: float = 0.1
    """How fast it does. >= 0."""

    adaptive_target: float = -1.0
    """Adaptive-p chooses tokens near this probability, so that their average comes near it, in the place of the draw.
    In [0, 1]; negative: off."""

    adaptive_decay: float = 0.9
    """How much of the average each token leaves to the next. In [0, 0.99]."""

    logit_bias: tuple[tuple[int, float], ...] = ()
    """Added to the logits before all else; -inf: never that token. A mapping of token ids to numbers is accepted."""

    samplers: tuple[str, ...] = _chain.SAMPLERS
    """The order of the steps. Each at most once; one that is on must be there. Temperature 0 needs no step."""

    logits_processors: tuple[LogitsProcessor, ...] = ()
    """Callables ``(tokens, logits)``, run in order for every token before all other steps: ``tokens`` are all tokens
    until now, prompt included, read-only int32 ``[n]``; ``logits``, float32 ``[vocab]``, is to be changed in place. They
    run while the device works for others. An exception ends its own generation and reaches the caller. Calls for one
    generation come one after the other; generations that run at the same time, such as the n of ``generate_n``, call
    from threads of their own."""

    seed: int | None = None
    """Seed of the random streams, 0..2**64 - 1. None: taken from the operating system, and reported in the result.
    The draws are those of Python's ``random.Random(seed).random()``, one a token; XTC, mirostat and adaptive-p have
    streams of their own (docs/sampling.md)."""

    max_tokens: int | None = None
    """Stop after this many tokens (finish_reason "length"). 0: an empty completion. None: until the model
    ends its answer or the context is full."""

    keep: int | None = None
    """With ``Model.load(context_policy="shift")``: leading tokens that stay when a full context drops old ones. None:
    the BOS, and in chats the system message. Half of the rest goes at each shift, so that a ``keep`` near the context makes
    every few tokens pay for a shift, and one of ``context - 1`` every token: see docs/sessions.md."""

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

    grammar: Grammar | None = None
    """What the text must look like (:class:`muser.Grammar`). End tokens and ``stop_token_ids`` are allowed only where
    the grammar can end, and forced where nothing else is left, before ``min_tokens`` too; ``max_tokens`` may cut it
    off (finish_reason "length")."""

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("temperature", checks.number("temperature", self.temperature, "must be in 0..3.4e38", 0, _MOST))
        put("top_k", checks.integer("top_k", self.top_k, -1, _MAX_INT))
        put("top_p", checks.number("top_p", self.top_p, "must be above 0 and at most 1", 0, 1, above=True))
        put("min_p", checks.number("min_p", self.min_p, "must be in 0..1", 0, 1))
        for name, rule, low, high, above in _NUMBERS:
            put(name, checks.number(name, getattr(self, name), rule, low, high, above=above))
        for name, least, most in _INTEGERS:
            put(name, checks.integer(name, getattr(self, name), least, most))
        put("dry_sequence_breakers", _chain.breakers(self.dry_sequence_breakers))
        put("logit_bias", _chain.logit_bias(self.logit_bias))
        put("samplers", _chain.samplers(self.samplers))
        put("logits_processors", _chain.processors(self.logits_processors))
        if self.seed is not None:
            put("seed", checks.integer("seed", self.seed, 0, MAX_SEED, none=True))
        if self.keep is not None:
            put("keep", checks.integer("keep", self.keep, 0, _MAX_INT, none=True))
        if self.max_tokens is not None:
            put("max_tokens", checks.integer("max_tokens", self.max_tokens, 0, _MAX_INT, none=True))
        put("stop_token_ids", _token_ids(self.stop_token_ids))
        if self.grammar is not None and not isinstance(self.grammar, Grammar):
            raise checks.refuse("grammar", "must be a muser.Grammar or None", self.grammar)
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
        _chain.native_sampler(self, seed=0)  # refuses what does not go together


class SamplingOverrides(TypedDict, total=False):
    """Keywords of ``generate`` and its relatives that replace fields of the given :class:`SamplingParams`."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    dynatemp_range: float
    dynatemp_exponent: float
    typical_p: float
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    penalty_last_n: int
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: Iterable[str | Sequence[int]]
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    adaptive_target: float
    adaptive_decay: float
    logit_bias: Mapping[int, float] | Iterable[tuple[int, float]]
    samplers: Iterable[str]
    logits_processors: Iterable[LogitsProcessor]
    seed: int | None
    max_tokens: int | None
    keep: int | None
    stop_token_ids: Iterable[int]
    ignore_eos: bool
    stop: str | Iterable[str]
    include_stop: bool
    min_tokens: int
    logprobs: bool
    top_logprobs: int
    echo: bool
    grammar: Grammar | None


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
        if checks.has_surrogate(string):  # it would be looked for in vain
            rule = "must be without lone surrogates, which no text has"
            raise checks.refuse("stop", rule, string, None if isinstance(value, str) else index)
    return tuple(dict.fromkeys(str(string) for string in strings))


def _token_ids(value: object) -> tuple[int, ...]:
    rule = "must be an iterable of token ids (integers, at least 0)"
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise checks.refuse("stop_token_ids", rule, value)
    return tuple(checks.integer("stop_token_ids", token, 0, _MAX_INT, index=index) for index, token in enumerate(value))
