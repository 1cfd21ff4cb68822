"""Argument checks that every public entry point shares: one wording, one exception, the value kept.

A ``bool`` is never a number here; numpy scalars are.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muser.errors import ParameterError


def refuse(parameter: str, rule: str, value: object) -> ParameterError:
    return ParameterError(f"{parameter} {rule}, not {shown(value)}", parameter=parameter, value=value)


def shown(value: object) -> str:
    """A short repr: an error message must not carry a megabyte of prompt."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({type(value).__name__})"


def integer(parameter: str, value: object, low: int, high: int, *, none: bool = False) -> int:
    """``value`` as an int of ``low..high``; ``none`` only words the message."""
    rule = f"must be an integer in {low}..{high}" + (" or None" if none else "")
    if isinstance(value, (bool, np.bool_)):
        raise refuse(parameter, rule, value)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise refuse(parameter, rule, value) from None
    if not low <= number <= high:
        raise refuse(parameter, rule, value)
    return number


def number(parameter: str, value: object, rule: str, low: float, high: float, *, above: bool = False) -> float:
    """``value`` as a finite float of ``low..high`` (``above``: more than ``low``); ``rule`` words the range."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise refuse(parameter, rule, value)
    try:
        converted = float(value)
    except OverflowError:
        raise refuse(parameter, rule, value) from None
    if not math.isfinite(converted) or not low <= converted <= high or (above and converted == low):
        raise refuse(parameter, rule, value)
    return converted


def boolean(parameter: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise refuse(parameter, "must be True or False", value)
    return bool(value)


def timeout(value: object) -> float | None:
    """Seconds to wait at most; None: no limit."""
    if value is None:
        return None
    return number("timeout", value, "must be a number of seconds, at least 0, or None", 0.0, math.inf)


def token_array(parameter: str, tokens: Any, vocab: int) -> NDArray[np.int32]:
    """A sequence of ids, or a 1-D integer array, as int32; every id is in ``0..vocab - 1``."""
    rule = "must be a str, a sequence of token ids or a 1-D integer array"
    if isinstance(tokens, (bytes, bytearray, memoryview, str, dict, set, frozenset)):
        raise refuse(parameter, rule, tokens)
    if not isinstance(tokens, np.ndarray):
        if not isinstance(tokens, Iterable):
            raise refuse(parameter, rule, tokens)
        listed = list(tokens)
        if any(isinstance(t, (bool, np.bool_)) for t in listed):
            raise refuse(parameter, rule, tokens)
        try:
            tokens = np.array([operator.index(t) for t in listed], dtype=np.int64)
        except TypeError:
            raise refuse(parameter, rule, tokens) from None
        except OverflowError:
            raise refuse(parameter, f"must hold ids in 0..{vocab - 1}", tokens) from None
    if tokens.ndim != 1 or not np.issubdtype(tokens.dtype, np.integer):
        raise refuse(parameter, rule, tokens)
    wrong = np.flatnonzero((tokens < 0) | (tokens >= vocab))
    if wrong.size:
        index = int(wrong[0])
        raise ParameterError(
            f"{parameter}[{index}] must be a token id in 0..{vocab - 1}, not {int(tokens[index])}",
            parameter=parameter,
            value=int(tokens[index]),
        )
    return np.ascontiguousarray(tokens, dtype=np.int32)
