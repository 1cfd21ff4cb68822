"""Numbers of a schema: what the engine, which computes with float64, would get wrong is decided here or refused.

A constant that a float64 does not hold would be forced as another number, and decimal steps have no exact float64: in
its arithmetic 19.99 is no multiple of 0.01.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..errors import GrammarError, GrammarLimitError
from .schema_ends import Schema, nodes

_LARGEST = 2**53  # up to here a float64 holds every integer
_INT64 = 2**63 - 1  # as the maximum of integers the engine is exact with it, and many schemas have it
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_COUNTS = 2**32  # characters of a string
_WRITTEN_OUT = 200  # multiples between two bounds


class Imprecise(float):
    """A number whose digits in the JSON text are not those of any float64."""


def parse_float(text: str) -> float:
    """For ``json.loads``."""
    number = float(text)
    return number if Decimal(text) == Decimal(repr(number)) else Imprecise(text)


def settle(tree: Schema) -> None:
    """Refuses numbers that are not exact, and replaces decimal steps by what they leave, in place."""
    for place, node in nodes(tree):
        for key in ("const", "enum", *_BOUNDS, "multipleOf"):
            if key in node and not (key == "maximum" and node[key] == _INT64 and _of_integers(node)):
                for number in _numbers(node[key]):
                    _check(f"{place}/{key}", number)
        for key in ("minLength", "maxLength"):
            if _is_number(node.get(key)) and node[key] >= _COUNTS:
                raise GrammarLimitError(f"{place}/{key} must be below {_COUNTS}")
        step = node.get("multipleOf")
        if isinstance(step, (int, float)) and not isinstance(step, bool) and step > 0:
            _settle_step(place, node, step)


def _settle_step(place: str, node: Schema, step: float) -> None:
    unit = fraction(step)
    values: list[Any] | None = None
    for key in ("const", "enum"):
        if key in node:
            given = node[key] if key == "enum" else [node[key]]
            if not isinstance(given, list):
                return  # the engine says so
            values = [value for value in given if not _is_number(value) or fraction(value) % unit == 0]
            if given and not values:
                raise GrammarError(f"{place}/{key}: nothing in it is a multiple of {step}")
            node[key] = values if key == "enum" else values[0]
    if values is None:
        values = _between(place, node, unit)
        if values is None:
            return
        node["enum"] = values
        for key in _BOUNDS:
            node.pop(key, None)
    del node["multipleOf"]


def _between(place: str, node: Schema, unit: Fraction) -> list[float] | None:
    """All values, if they are few; None: the engine gets this right, or there are too many."""
    if node.get("type") not in ("number", "integer") or unit.denominator == 1:
        return None
    if not all(_is_number(node[key]) for key in _BOUNDS if key in node):
        return None
    low = [math.ceil(fraction(node["minimum"]) / unit)] if "minimum" in node else []
    high = [math.floor(fraction(node["maximum"]) / unit)] if "maximum" in node else []
    if "exclusiveMinimum" in node:
        low.append(math.floor(fraction(node["exclusiveMinimum"]) / unit) + 1)
    if "exclusiveMaximum" in node:
        high.append(math.ceil(fraction(node["exclusiveMaximum"]) / unit) - 1)
    if not low or not high or min(high) - max(low) >= _WRITTEN_OUT:
        return None
    exact = [unit * count for count in range(max(low), min(high) + 1)]
    if node["type"] == "integer":
        exact = [value for value in exact if value.denominator == 1]
    if not exact:
        raise GrammarError(f"{place}: no multiple of {node['multipleOf']} is between the bounds")
    values = [int(value) if value.denominator == 1 else float(value) for value in exact]
    return values if all(map(_same, values, exact)) else None


def fraction(number: float) -> Fraction:
    """As its shortest decimal says: 0.1 is a tenth."""
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _of_integers(node: Schema) -> bool:
    kinds = node.get("type")
    return kinds == "integer" or (isinstance(kinds, list) and "integer" in kinds and "number" not in kinds)


def _same(value: float, exact: Fraction) -> bool:
    return fraction(value) == exact


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _numbers(value: object) -> Iterator[float]:
    """All in a JSON value."""
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield value


def _check(place: str, number: float) -> None:
    if isinstance(number, Imprecise):
        raise GrammarError(f"{place}: a number with more digits than a float64 holds; it would become {number!r}")
    if abs(number) > _LARGEST:
        text = repr(number)
        text = text if len(text) <= 40 else f"{text[:20]}..."
        raise GrammarError(f"{place}: {text} is beyond 2**53, where a grammar's numbers are no longer exact")
