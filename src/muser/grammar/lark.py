"""Writes nodes in the notation of the grammar engine, so that every text of the grammar is accepted and no other.

The engine cuts its input into lexemes, the longest first, and does not go back; GBNF knows no lexemes. A grammar without
recursion is one single lexeme, a regular expression. Where there is recursion, a lexeme is a part that no other can
be mistaken for (``lexemes``), and one character where that fails. Long lexemes make fast masks.
"""

from __future__ import annotations

from .lexemes import Lexemes
from .nodes import Chars, Choice, Literal, Node, Ref, Repeat, Rule, children
from .rules import is_recursive

# The engine may otherwise tokenize forced text by itself; here the model chooses among all spellings.
HEADER = '%llguidance {"no_forcing": true}\n'

_MAX_REGEX = 300_000  # beyond that, rules of single characters are smaller and start sooner
_NOT_EMPTY = r"/[\x{0}-\x{10FFFF}]+/"


def is_regular(order: list[Rule]) -> bool:
    """Whether the whole grammar can be one regular expression of a sensible size."""
    return not is_recursive(order) and _size(order) <= _MAX_REGEX


def as_regex(order: list[Rule]) -> str:
    """``order``: as :func:`muser.grammar.rules.check` returns it; a regular grammar."""
    writer = _Writer(order, None)
    return writer.whole(writer.regex(Ref(order[-1].name, 0)))


def as_rules(order: list[Rule], lexemes: Lexemes | None) -> str:
    """Any grammar; without ``lexemes``, of single characters."""
    writer = _Writer(order, lexemes)
    return writer.whole(writer.definition("r", order[-1].name))


def regex_of(text: str) -> str:
    """A regular expression that matches this text only."""
    return "".join(f"\\x{{{ord(character):X}}}" for character in text)


class _Writer:
    """Rules that are needed get a definition each: ``r3`` where they are rules, ``T3`` where they are parts of lexemes."""

    def __init__(self, order: list[Rule], lexemes: Lexemes | None) -> None:
        self.numbers = {rule.name: index for index, rule in enumerate(order)}
        self.bodies = {rule.name: rule.body for rule in order}
        self.lexemes = lexemes
        self.terminals: dict[str, str] = {}  # definition -> name
        self.wanted: list[tuple[str, str]] = []  # names of definitions and of their rules
        self.known: set[str] = set()

    def whole(self, start: str) -> str:
        lines = [f"start: {start}"]
        while self.wanted:  # grows meanwhile
            name, rule = self.wanted.pop()
            body = self.bodies[rule]
            lines.append(f"{name}: {self.regex(body) if name.startswith('T') else self.rule(body)}")
        lines += [f"{name}: {text}" for text, name in self.terminals.items()]
        return HEADER + "\n".join(lines) + "\n"

    def rule(self, node: Node) -> str:
        if isinstance(node, Literal) and not node.text:
            return '""'
        if isinstance(node, Chars):
            return self.terminal(_class(node))
        if self.lexemes is not None and self.lexemes.whole(node):
            text = self.regex(node)
            if not self.lexemes.nullable(node):
                return self.terminal(text)
            return f"({self.terminal(f'({text}) & {_NOT_EMPTY}')})?"
        if isinstance(node, Ref):
            return self.definition("r", node.name)
        if isinstance(node, Literal):
            return "(" + " ".join(self.terminal(f"/[{regex_of(character)}]/") for character in node.text) + ")"
        if isinstance(node, Repeat):
            return f"({self.rule(node.item)}){_times(node)}"
        parts = [self.rule(child) for child in children(node)]
        return "(" + (" | " if isinstance(node, Choice) else " ").join(parts) + ")"

    def regex(self, node: Node) -> str:
        """Of a part without recursion."""
        if isinstance(node, Ref):
            return self.definition("T", node.name)
        if isinstance(node, Chars):
            return _class(node)
        if isinstance(node, Literal):
            return f"/{regex_of(node.text)}/" if node.text else '""'
        if isinstance(node, Repeat):
            return f"({self.regex(node.item)}){_times(node)}"
        parts = [self.regex(child) for child in children(node)]
        return "(" + (" | " if isinstance(node, Choice) else " ").join(parts) + ")"

    def definition(self, kind: str, rule: str) -> str:
        name = f"{kind}{self.numbers[rule]}"
        if name not in self.known:
            self.known.add(name)
            self.wanted.append((name, rule))
        return name

    def terminal(self, text: str) -> str:
        return self.terminals.setdefault(text, f"C{len(self.terminals)}")


def _class(node: Chars) -> str:
    return "/[" + "".join(f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in node.ranges) + "]/"


def _times(node: Repeat) -> str:
    if node.high is None:
        return {0: "*", 1: "+"}.get(node.low, f"{{{node.low},}}")
    return f"{{{node.low},{node.high}}}"


def _size(order: list[Rule]) -> int:
    """Characters of the regular expression when every rule and every repetition is written out."""
    sizes: dict[str, int] = {}
    for rule in order:
        sizes[rule.name] = min(_written(rule.body, sizes), 2**62)
    return sizes[order[-1].name]


def _written(node: Node, rules: dict[str, int]) -> int:
    if isinstance(node, Ref):
        return rules[node.name]
    if isinstance(node, Literal):
        return len(node.text)
    below = 1 + sum(_written(child, rules) for child in children(node))
    if not isinstance(node, Repeat):
        return below
    return below * max(1, node.low if node.high is None else node.high)
