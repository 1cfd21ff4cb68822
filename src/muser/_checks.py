"""Argument checks that every public entry point shares: one wording, one exception, the value kept.

A ``bool`` is never a number here; numpy scalars are.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muser.errors import ParameterError

MOST = 3.4e38
"""What is left of float32's range, within which the sampler computes: where a message has 3.4e38, it means this."""


def refuse(parameter: str, rule: str, value: object, index: int | None = None) -> ParameterError:
    """``index``: ``value`` is that element of the parameter, and the rule is the element's."""
    name = parameter if index is None else f"{parameter}[{index}]"
    return ParameterError(f"{name} {rule}, not {shown(value)}", parameter=parameter, value=value, index=index)


def shown(value: object) -> str:
    """A short repr: an error message must not carry a megabyte of prompt. Only a type where there is none: nesting
    without end, an integer of more digits than Python prints, a ``__repr__`` that raises."""
    try:
        text = repr(value)
    except Exception:
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]}... ({type(value).__name__})"


def integer(parameter: str, value: object, low: int, high: int, *, none: bool = False, index: int | None = None) -> int:
    """``value`` as an int of ``low..high``; ``none`` and ``index`` only word the message."""
    rule = f"must be an integer in {low}..{high}" + (" or None" if none else "")
    if isinstance(value, (bool, np.bool_)):
        raise refuse(parameter, rule, value, index)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise refuse(parameter, rule, value, index) from None
    if not low <= number <= high:
        raise refuse(parameter, rule, value, index)
    return number


def whole(parameter: str, value: object) -> int:
    """``value`` as an int of any size."""
    if isinstance(value, (bool, np.bool_)):
        raise refuse(parameter, "must be an integer", value)
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise refuse(parameter, "must be an integer", value) from None


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


def string(parameter: str, value: object) -> str:
    if not isinstance(value, str):
        raise refuse(parameter, "must be a str", value)
    return value


def has_surrogate(text: str) -> bool:
    """A lone one, which UTF-8 cannot encode."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def choice(parameter: str, value: object, options: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in options:
        quoted = [f'"{option}"' for option in options]
        raise refuse(parameter, f"must be {', '.join(quoted[:-1])} or {quoted[-1]}", value)
    return value


def path(value: object, parameter: str = "path") -> str:
    """A path as the str that ``os.fsdecode`` makes of it. Not an empty one, which an error could not show."""
    rule = "must be a str, bytes or os.PathLike without a zero byte"
    try:
        name = os.fsdecode(value)  # type: ignore[arg-type]
        encodable = b"\0" not in os.fsencode(name)
    except (TypeError, UnicodeError):
        raise refuse(parameter, rule, value) from None
    if not encodable:
        raise refuse(parameter, rule, value)
    if not name:
        raise ParameterError(f"{parameter} is empty: it must name a file", parameter=parameter, value=value)
    return name


def timeout(value: object) -> float | None:
    """Seconds to wait at most; None: no limit."""
    if value is None:
        return None
    return number("timeout", value, "must be a number of seconds, at least 0, or None", 0.0, math.inf)


def grace(value: object) -> float:
    """Seconds that a reader may stay away, above 0 and at most a day."""
    return number("reader_grace", value, "must be a number of seconds above 0 and at most 86400", 0.0, 86400.0, above=True)


def token_array(parameter: str, tokens: Any, vocab: int, *, text: bool = False) -> NDArray[np.int32]:
    """A sequence of ids, or a 1-D integer array, as int32; every id is in ``0..vocab - 1``. ``text`` only words
    the message: the caller takes a str as well."""
    rule = f"must be {'a str, ' if text else ''}a sequence of token ids or a 1-D integer array"
    element = f"must be a token id in 0..{vocab - 1}"
    if isinstance(tokens, (bytes, bytearray, memoryview, str, dict, set, frozenset)) or _masked(tokens):
        raise refuse(parameter, rule, tokens)
    if not isinstance(tokens, np.ndarray):
        if not isinstance(tokens, Iterable):
            raise refuse(parameter, rule, tokens)
        try:
            listed = list(tokens)
        except TypeError:  # such as a 0-d tensor
            raise refuse(parameter, rule, tokens) from None
        for index, token in enumerate(listed):
            if not _is_id(token, vocab):
                raise refuse(parameter, element, token, index)
        # One by one: np.array would hold the interpreter lock for all of a long list at once.
        return np.fromiter((operator.index(token) for token in listed), np.int32, len(listed))
    if tokens.ndim != 1 or not np.issubdtype(tokens.dtype, np.integer):
        raise refuse(parameter, rule, tokens)
    wrong = np.flatnonzero((tokens < 0) | (tokens >= vocab))
    if wrong.size:
        index = int(wrong[0])
        raise refuse(parameter, element, int(tokens[index]), index)
    return np.ascontiguousarray(tokens, dtype=np.int32)


def logits_array(logits: Any) -> NDArray[np.float32]:
    """A 1-D array (or sequence) of real numbers as float32. NaN and infinities are the sampler's business."""
    rule = "must be a 1-D array of real numbers [vocab]"
    if isinstance(logits, (str, bytes, bytearray, memoryview)) or _masked(logits):
        raise refuse("logits", rule, logits)
    try:
        array = np.asarray(logits)
    except (TypeError, ValueError, RuntimeError):  # ragged lists, tensors on a device
        raise refuse("logits", rule, logits) from None
    if array.ndim != 1 or (array.dtype.kind not in "fiu" and array.size):
        raise refuse("logits", rule, logits)
    with np.errstate(all="ignore"):
        row = np.ascontiguousarray(array, dtype=np.float32)
        if array.dtype != np.float32:
            wrong = np.flatnonzero(np.isinf(row) & np.isfinite(array))  # +inf would be certain
            if wrong.size:
                index = int(wrong[0])
                raise refuse("logits", "must be a number that float32 can hold", float(array[index]), index)
    return row


def token_mask(mask: Any) -> NDArray[np.uint32] | None:
    """One bit a token. Its length is the sampler's business."""
    if mask is None:
        return None
    if not isinstance(mask, np.ndarray) or mask.dtype != np.uint32 or mask.ndim != 1:
        raise refuse("mask", "must be None or a 1-D uint32 array [ceil(vocab / 32)]", mask)
    return np.ascontiguousarray(mask)


def _is_id(token: object, vocab: int) -> bool:
    if isinstance(token, (bool, np.bool_)):
        return False
    try:
        return 0 <= operator.index(token) < vocab  # type: ignore[arg-type]
    except TypeError:
        return False


def _masked(array: object) -> bool:
    """A masked array would lose its mask on the way; only numpy's subclasses are worth the look."""
    return isinstance(array, np.ndarray) and type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray)
