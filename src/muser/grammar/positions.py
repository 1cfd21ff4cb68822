"""Regular nodes as automata without empty moves (Glushkov's construction): a state is a place of a character class.

Only what deciding on lexemes needs: a few hundred states, ranges of code points, first bytes.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from .nodes import Chars, Choice, Literal, Node, Ref, Repeat

MAX_STATES = 400
MAX_EDGES = 20_000

Ranges = tuple[tuple[int, int], ...]
# The first bytes of UTF-8, each with the first character that begins with it.
_LEADS = [
    *((byte, byte) for byte in range(0x80)),
    *((byte - 0xC0 << 6, byte) for byte in range(0xC2, 0xE0)),
    *((max(byte - 0xE0 << 12, 0x800), byte) for byte in range(0xE0, 0xF0)),
    *((max(byte - 0xF0 << 18, 0x10000), byte) for byte in range(0xF0, 0xF5)),
]


class TooLargeError(Exception):
    """More states than are worth a look."""


@dataclass
class Automaton:
    ranges: list[Ranges] = field(default_factory=list)  # of each state: what is read on the way into it
    follow: list[set[int]] = field(default_factory=list)
    first: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()
    nullable: bool = False
    edges: int = 0


_Part = tuple[bool, frozenset[int], frozenset[int]]  # nullable, first, last
_NOTHING: frozenset[int] = frozenset()
_EMPTY: _Part = (True, _NOTHING, _NOTHING)


def automaton(node: Node, bodies: dict[str, Node]) -> Automaton:
    """``bodies``: of the rules that it refers to, none of which is recursive. TooLargeError."""
    made = Automaton()
    try:
        made.nullable, made.first, made.last = _part(node, bodies, made)
    except RecursionError:  # a long chain of rules
        raise TooLargeError from None
    return made


@functools.lru_cache(maxsize=1024)
def lead_bytes(ranges: Ranges) -> int:
    """The first bytes that UTF-8 has for these characters, as a set of bits."""
    bits = 0
    for low, high in ranges:
        for (start, lead), (after, _) in zip(_LEADS, [*_LEADS[1:], (0x110000, 0)]):
            bits |= (low < after and start <= high) << lead
    return bits


def overlap(a: Ranges, b: Ranges) -> bool:
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][1] < b[j][0]:
            i += 1
        elif b[j][1] < a[i][0]:
            j += 1
        else:
            return True
    return False


def _part(node: Node, bodies: dict[str, Node], made: Automaton) -> _Part:
    if isinstance(node, Ref):
        return _part(bodies[node.name], bodies, made)
    if isinstance(node, Chars):
        return _state(node.ranges, made)
    if isinstance(node, Literal):
        part = _EMPTY
        for character in node.text:
            part = _then(part, _state(((ord(character),) * 2,), made), made)
        return part
    if isinstance(node, Choice):
        parts = [_part(option, bodies, made) for option in node.options]
        nullables, firsts, lasts = zip(*parts)
        return any(nullables), _NOTHING.union(*firsts), _NOTHING.union(*lasts)
    if isinstance(node, Repeat):
        return _repeat(node, bodies, made)
    part = _EMPTY
    for item in node.items:
        part = _then(part, _part(item, bodies, made), made)
    return part


def _repeat(node: Repeat, bodies: dict[str, Node], made: Automaton) -> _Part:
    if max(node.low, node.high or 0) > MAX_STATES:
        raise TooLargeError
    part = _EMPTY
    for _ in range(node.low - (node.high is None and node.low > 0)):
        part = _then(part, _part(node.item, bodies, made), made)
    if node.high is None:  # one that goes around
        nullable, first, last = _part(node.item, bodies, made)
        _connect(last, first, made)
        return _then(part, (nullable or node.low == 0, first, last), made)
    tail = _EMPTY
    for _ in range(node.high - node.low):  # x(x(x)?)?, from the inside
        _, first, last = joined = _then(_part(node.item, bodies, made), tail, made)
        tail = (True, joined[1], joined[2])
    return _then(part, tail, made)


def _state(ranges: Ranges, made: Automaton) -> _Part:
    if len(made.ranges) == MAX_STATES:
        raise TooLargeError
    made.ranges.append(ranges)
    made.follow.append(set())
    here = frozenset((len(made.ranges) - 1,))
    return False, here, here


def _then(a: _Part, b: _Part, made: Automaton) -> _Part:
    _connect(a[2], b[1], made)
    return a[0] and b[0], a[1] | b[1] if a[0] else a[1], a[2] | b[2] if b[0] else b[2]


def _connect(sources: frozenset[int], targets: frozenset[int], made: Automaton) -> None:
    made.edges += len(sources) * len(targets)
    if made.edges > MAX_EDGES:
        raise TooLargeError
    for source in sources:
        made.follow[source] |= targets
