"""Which parts of a recursive grammar may be lexemes of more than one character.

The engine runs all lexemes that may begin at a place side by side, and ends them at the byte that kills them all. So
a lexeme L that is complete is missed if another one, L', could go on: if some text w of L, and a byte c that may follow
L, are together the beginning of a text of L'. Where no pair of lexemes can do that, lexemes are exact. A part that is in
the way (L') is taken apart, down to single characters, which never are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from .nodes import Chars, Choice, Literal, Node, Ref, Repeat, Rule, children, references
from .positions import Automaton, TooLargeError, automaton, lead_bytes, overlap

_MAX_STEPS = 300_000  # of all searches, half a second at most
_MAX_ROUNDS = 200
_MAX_LEXEMES = 200
_MAX_RULES = 500

Key: TypeAlias = Chars | Literal | str | int  # a rule's name, or which object it is: large ones hash slowly


class Lexemes:
    """``whole(node)``: whether the node is one lexeme."""

    def __init__(self, order: list[Rule]) -> None:
        self.bodies = {rule.name: rule.body for rule in order}
        self.regular = _regular(order)
        self._order = order
        self._apart: set[Key] = set()  # taken apart
        self._automata: dict[Key, Automaton] = {}
        self._steps = 0
        if len(order) > _MAX_RULES:
            raise TooLargeError
        for _ in range(_MAX_ROUNDS):
            wrong = self._in_the_way()
            if not wrong:
                return
            self._apart |= wrong
        raise TooLargeError

    def whole(self, node: Node) -> bool:
        if isinstance(node, Chars):
            return True
        return _key(node) not in self._apart and all(ref.name in self.regular for ref in references(node))

    def nullable(self, node: Node) -> bool:
        """Of a whole one."""
        return self._automaton(node).nullable

    def _automaton(self, node: Node) -> Automaton:
        key = _key(node)
        if key not in self._automata:
            self._automata[key] = automaton(node, self.bodies)
        return self._automata[key]

    def _in_the_way(self) -> set[Key]:
        found: dict[Key, Node] = {}
        wrong: set[Key] = set()
        for rule in self._order:
            if rule.name in self.regular and rule.name not in self._apart and rule is not self._order[-1]:
                continue  # only ever a part of lexemes
            for node in self._leaves(rule.body):
                found[_key(node)] = node
        for key, node in found.items():
            try:
                self._automaton(node)
            except TooLargeError:
                wrong.add(key)
        if wrong:
            return wrong
        if len(found) > _MAX_LEXEMES:
            raise TooLargeError
        after = self._follow()
        for key, node in found.items():
            for other_key, other in found.items():
                if not isinstance(other, Chars) and self._goes_on(self._automaton(node), self._automaton(other), after.get(key, 0)):
                    wrong.add(other_key)
        return wrong

    def _leaves(self, node: Node) -> Iterator[Node]:
        if self.whole(node):
            yield node
        elif isinstance(node, Literal):
            yield from (Chars(((ord(character),) * 2,)) for character in node.text)
        else:
            for child in children(node):
                yield from self._leaves(child)

    def _goes_on(self, one: Automaton, other: Automaton, after: int) -> bool:
        """Whether some text of ``one`` with a byte of ``after`` behind it begins a text of ``other``."""
        seen: set[tuple[int, int]] = set()
        stack = [(p, q) for p in one.first for q in other.first]
        while stack:
            self._step()
            p, q = pair = stack.pop()
            if pair in seen or not overlap(one.ranges[p], other.ranges[q]):
                continue
            seen.add(pair)
            following = other.follow[q]
            if p in one.last and any(lead_bytes(other.ranges[r]) & after for r in following):
                return True
            stack.extend((r, s) for r in one.follow[p] for s in following)
        return False

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise TooLargeError

    def _follow(self) -> dict[Key, int]:
        """For every lexeme the bytes that may come right after it, somewhere."""
        firsts, nullables = self._firsts()
        after_rule: dict[str, int] = {}
        after: dict[Key, int] = {}

        def first(node: Node) -> int:
            return _first(node, firsts, nullables)

        def visit(node: Node, behind: int) -> None:
            self._step()
            if self.whole(node):
                after[_key(node)] = after.get(_key(node), 0) | behind
            elif isinstance(node, Ref):
                after_rule[node.name] = after_rule.get(node.name, 0) | behind
            elif isinstance(node, Literal):
                for character, ahead in zip(node.text, [*node.text[1:], ""]):
                    key = _key(Chars(((ord(character),) * 2,)))
                    after[key] = after.get(key, 0) | (_lead(ahead) if ahead else behind)
            elif isinstance(node, Choice):
                for option in node.options:
                    visit(option, behind)
            elif isinstance(node, Repeat):
                visit(node.item, behind if node.high == 1 else behind | first(node.item))
            elif not isinstance(node, Chars):
                for item in reversed(node.items):
                    visit(item, behind)
                    behind = first(item) | (behind if _nullable(item, nullables) else 0)

        while True:
            before = dict(after_rule)
            for rule in self._order:
                visit(rule.body, after_rule.get(rule.name, 0))
            if after_rule == before:
                return after

    def _firsts(self) -> tuple[dict[str, int], set[str]]:
        nullables: set[str] = set()
        firsts: dict[str, int] = {rule.name: 0 for rule in self._order}
        while True:
            before = (dict(firsts), len(nullables))
            for rule in self._order:
                self._step()
                if _nullable(rule.body, nullables):
                    nullables.add(rule.name)
                firsts[rule.name] |= _first(rule.body, firsts, nullables)
            if (firsts, len(nullables)) == before:
                return firsts, nullables


def _key(node: Node) -> Key:
    if isinstance(node, Ref):
        return node.name
    return node if isinstance(node, (Chars, Literal)) else id(node)


def _lead(character: str) -> int:
    return 1 << character.encode()[0]


def _regular(order: list[Rule]) -> set[str]:
    """Rules that need no recursive one; ``order`` has what a rule refers to before it."""
    regular: set[str] = set()
    for rule in order:
        if all(ref.name in regular for ref in references(rule.body)):
            regular.add(rule.name)
    return regular


def _nullable(node: Node, rules: set[str]) -> bool:
    if isinstance(node, Ref):
        return node.name in rules
    if isinstance(node, Literal):
        return not node.text
    if isinstance(node, Chars):
        return False
    if isinstance(node, Repeat):
        return node.low == 0 or _nullable(node.item, rules)
    test: Callable[[Iterator[bool]], bool] = any if isinstance(node, Choice) else all
    return test(_nullable(child, rules) for child in children(node))


def _first(node: Node, rules: dict[str, int], nullables: set[str]) -> int:
    if isinstance(node, Ref):
        return rules[node.name]
    if isinstance(node, Chars):
        return lead_bytes(node.ranges)
    if isinstance(node, Literal):
        return _lead(node.text[0]) if node.text else 0
    bits = 0
    for child in children(node):
        bits |= _first(child, rules, nullables)
        if not isinstance(node, (Choice, Repeat)) and not _nullable(child, nullables):
            break
    return bits
