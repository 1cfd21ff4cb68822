"""The parts that a grammar is made of, whatever notation it was written in. Plain data, immutable.

``gbnf`` makes them, ``rules`` checks them, ``lark`` writes them in the notation of the grammar engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

LAST = 0x10FFFF  # the highest code point
SURROGATES = (0xD800, 0xDFFF)  # in no text


@dataclass(frozen=True)
class Chars:
    """One character out of ranges of code points, both ends included; sorted, disjoint, without surrogates."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Literal:
    """A text. May be empty."""

    text: str


@dataclass(frozen=True)
class Ref:
    """A rule by its name; ``offset`` is where in the grammar's text it is named."""

    name: str
    offset: int


@dataclass(frozen=True)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    options: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    item: Node
    low: int
    high: int | None  # None: no limit


Node: TypeAlias = Chars | Literal | Ref | Sequence | Choice | Repeat


@dataclass(frozen=True)
class Rule:
    name: str
    offset: int
    body: Node


def sequence(items: list[Node]) -> Node:
    return items[0] if len(items) == 1 else Sequence(tuple(items))


def choice(options: list[Node]) -> Node:
    return options[0] if len(options) == 1 else Choice(tuple(options))


def chars(ranges: list[tuple[int, int]], *, negated: bool = False) -> Chars:
    """Any ranges in any order, made regular."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    if negated:
        edges = [-1, *(edge for pair in merged for edge in pair), LAST + 1]
        merged = [(low + 1, high - 1) for low, high in zip(edges[::2], edges[1::2]) if low + 1 < high]
    first, last = SURROGATES
    parts = [part for low, high in merged for part in ((low, min(high, first - 1)), (max(low, last + 1), high))]
    return Chars(tuple((low, high) for low, high in parts if low <= high))


def children(node: Node) -> tuple[Node, ...]:
    if isinstance(node, Sequence):
        return node.items
    if isinstance(node, Choice):
        return node.options
    return (node.item,) if isinstance(node, Repeat) else ()


def references(node: Node) -> list[Ref]:
    """All of them, from left to right."""
    found: list[Ref] = []
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, Ref):
            found.append(part)
        stack.extend(reversed(children(part)))
    return found
