"""From SamplingParams to the native sampler, and the few of its arguments that are more than numbers."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from muser import _checks as checks
from muser import _muser
from muser.errors import ParameterError

if TYPE_CHECKING:
    from muser.params import SamplingParams
    from muser.text import Tokenizer

LogitsProcessor: TypeAlias = Callable[[NDArray[np.int32], NDArray[np.float32]], object]
"""``(tokens, logits)``: all tokens until now, prompt included, read-only int32 ``[n]``; and the float32 logits
``[vocab]`` of the next one, a private copy to change in place. What it returns is ignored."""

SAMPLERS = ("penalties", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc", "temperature")
"""The steps of the chain whose order is free, in llama.cpp's order."""

PLAIN = (
    "temperature", "dynatemp_range", "dynatemp_exponent", "top_k", "top_p", "min_p", "typical_p", "top_n_sigma",
    "xtc_probability", "xtc_threshold", "repetition_penalty", "presence_penalty", "frequency_penalty", "penalty_last_n",
    "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "mirostat", "mirostat_tau", "mirostat_eta",
    "adaptive_target", "adaptive_decay", "logit_bias", "samplers",
)  # fmt: skip
_KEEP_THE_MOST_LIKELY = ("temperature", "top_k", "top_p", "min_p", "top_n_sigma", "samplers")  # XTC and typical_p may drop it
_MAX_ID = 2**31 - 1
_MAX_TAIL = 20  # tokens of a breaker that begins in the middle of a token


def native_sampler(params: SamplingParams, seed: int, breakers: Sequence[Sequence[int]] = ()) -> _muser.Sampler:
    """Checks also what one field alone cannot show: ParameterError."""
    return _muser.Sampler(
        **{name: getattr(params, name) for name in PLAIN}, seed=seed, dry_breakers=[list(b) for b in breakers]
    )


def takes_first_maximum(params: SamplingParams) -> bool:
    """Whether every token is the first maximum of the model's own logits."""
    plain = (name for name in PLAIN if name not in _KEEP_THE_MOST_LIKELY)
    return (
        params.temperature == 0
        and not params.logits_processors
        and all(getattr(params, name) == getattr(type(params), name) for name in plain)
    )


def logit_bias(value: Any) -> tuple[tuple[int, float], ...]:
    rule = "must be a mapping of token ids to numbers"
    if isinstance(value, (str, bytes)) or not isinstance(value, (Mapping, Iterable)):
        raise checks.refuse("logit_bias", rule, value)
    try:
        pairs = [(token, bias) for token, bias in (value.items() if isinstance(value, Mapping) else value)]
    except (TypeError, ValueError):
        raise checks.refuse("logit_bias", rule, value) from None
    biases: dict[int, float] = {}
    for token, bias in pairs:
        checked = _biased(token)
        if checked in biases:
            raise checks.refuse("logit_bias", "must be of tokens that are there once", checked)
        biases[checked] = _bias(bias)
    return tuple(biases.items())


def _biased(token: object) -> int:
    try:
        return checks.integer("logit_bias", token, 0, _MAX_ID)
    except ParameterError:
        raise checks.refuse("logit_bias", f"must be a mapping whose keys are token ids, 0..{_MAX_ID}", token) from None


def _bias(value: object) -> float:
    if isinstance(value, (float, np.floating)) and value == -math.inf:
        return -math.inf
    return checks.number("logit_bias", value, "must be of numbers in -3.4e38..3.4e38, or -inf", -checks.MOST, checks.MOST)


def samplers(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise checks.refuse("samplers", "must be an iterable of names of samplers", value)
    names = tuple(value)
    for index, name in enumerate(names):
        if not isinstance(name, str) or name not in SAMPLERS:
            raise checks.refuse("samplers", f"must be one of {', '.join(SAMPLERS)}", name, index)
        if name in names[:index]:
            raise checks.refuse("samplers", "must be there once", name, index)
    return names


def breakers(value: Any) -> tuple[str | tuple[int, ...], ...]:
    name = "dry_sequence_breakers"
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise checks.refuse(name, "must be an iterable of str or of sequences of token ids", value)
    kept: list[str | tuple[int, ...]] = []
    for index, breaker in enumerate(value):
        if isinstance(breaker, bytes) or not isinstance(breaker, Iterable) or not (items := tuple(breaker)):
            raise checks.refuse(name, "must be a str or a sequence of token ids, not empty", breaker, index)
        if isinstance(breaker, str) and checks.has_surrogate(breaker):
            raise checks.refuse(name, "must be without lone surrogates, which no text has", breaker, index)
        kept.append(str(breaker) if isinstance(breaker, str) else tuple(_broken(index, token) for token in items))
    return tuple(kept)


def _broken(index: int, token: object) -> int:
    name = "dry_sequence_breakers"
    try:
        return checks.integer(name, token, 0, _MAX_ID)
    except ParameterError:
        raise checks.refuse(name, f"must be of token ids, 0..{_MAX_ID}", token, index) from None


def processors(value: Any) -> tuple[LogitsProcessor, ...]:
    rule = "must be an iterable of callables (tokens, logits)"
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise checks.refuse("logits_processors", rule, value)
    for index, processor in enumerate(kept := tuple(value)):
        if not callable(processor):
            raise checks.refuse("logits_processors", "must be a callable (tokens, logits)", processor, index)
    return kept


_resolved: weakref.WeakKeyDictionary[Any, dict[tuple[Any, ...], list[list[int]]]] = weakref.WeakKeyDictionary()


def breaker_tokens(params: SamplingParams, tokenizer: Tokenizer | None) -> list[list[int]]:
    """The token sequences that ``dry_sequence_breakers`` stand for: every token whose text holds one of the strings,
    and every token that ends with the beginning of one, followed by the tokens of the rest.

    Looks at the whole vocabulary once a tokenizer and set of strings. Empty where DRY is off.
    """
    if params.dry_multiplier == 0 or params.dry_penalty_last_n == 0:
        return []
    found = [list(breaker) for breaker in params.dry_sequence_breakers if not isinstance(breaker, str)]
    strings = tuple(breaker for breaker in params.dry_sequence_breakers if isinstance(breaker, str))
    if not strings:
        return found
    if tokenizer is None:
        raise checks.refuse(
            "dry_sequence_breakers", "must be token ids, or none (), for a Sampler without a tokenizer", strings
        )
    known = _resolved.setdefault(tokenizer, {})
    if strings not in known:
        known[strings] = _sequences(tokenizer, strings)
    return found + known[strings]


def _sequences(tokenizer: Tokenizer, strings: tuple[str, ...]) -> list[list[int]]:
    whole = [string.encode(errors="replace") for string in strings]
    beginnings = {
        string[:length]: tokenizer.encode(string[length:], add_bos=False)[:_MAX_TAIL]
        for string in strings
        for length in range(1, len(string))
    }
    pieces = tokenizer.pieces()
    ends = np.cumsum([len(piece) for piece in pieces])
    text = b"".join(pieces)
    single = set().union(*(_holders(text, ends, string) for string in whole))
    sequences = [[token] for token in sorted(single)]
    for head, tail in beginnings.items():
        holders = _holders(text, ends, head.encode(errors="replace"), at_end=True) if tail else set()
        sequences += [[token, *tail] for token in sorted(holders - single)]
    return sequences


def _holders(text: bytes, ends: NDArray[np.int64], part: bytes, *, at_end: bool = False) -> set[int]:
    """The tokens whose bytes hold ``part`` (or end with it), where ``text`` is the bytes of all, one after the other."""
    found = set()
    place = text.find(part)
    while place >= 0:
        token = int(np.searchsorted(ends, place, side="right"))
        if place + len(part) == ends[token] if at_end else place + len(part) <= ends[token]:
            found.add(token)
        place = text.find(part, place + 1)
    return found
