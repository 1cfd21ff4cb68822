"""Writes nodes in the notation of the grammar engine, so that every text of the grammar is accepted and no other.

The engine cuts its input into lexemes, the longest first, and does not go back; GBNF knows no lexemes. Two forms
are exact all the same: a grammar without recursion is one single lexeme, a regular expression, whose masks are
fast; and where there is recursion every lexeme is one character, so that there is nothing to cut.
"""

from __future__ import annotations

from .nodes import Chars, Choice, Literal, Node, Ref, Repeat, Rule, children
from .rules import is_recursive

# The engine may otherwise tokenize forced text by itself; here the model chooses among all spellings.
HEADER = '%llguidance {"no_forcing": true}\n'

_MAX_REGEX = 300_000  # beyond that, rules of single characters are smaller and start sooner


def is_regular(order: list[Rule]) -> bool:
    """Whether the whole grammar can be one regular expression of a sensible size."""
    return not is_recursive(order) and _size(order) <= _MAX_REGEX


def write(order: list[Rule], *, regular: bool) -> str:
    """``order``: as :func:`muser.grammar.rules.check` returns it."""
    writer = _Writer(order, "T" if regular else "r")
    lines = [f"{writer.names[rule.name]}: {writer.node(rule.body)}" for rule in order]
    lines += [f"{name}: {text}" for text, name in writer.terminals.items()]
    return HEADER + f"start: {writer.names[order[-1].name]}\n" + "\n".join(lines) + "\n"


def regex_of(text: str) -> str:
    """A regular expression that matches this text only."""
    return "".join(f"\\x{{{ord(character):X}}}" for character in text)


class _Writer:
    def __init__(self, order: list[Rule], prefix: str) -> None:
        self.names = {rule.name: f"{prefix}{index}" for index, rule in enumerate(order)}
        self.by_character = prefix == "r"
        self.terminals: dict[str, str] = {}  # definition -> name

    def node(self, node: Node) -> str:
        if isinstance(node, Ref):
            return self.names[node.name]
        if isinstance(node, Chars):
            return self.terminal(_class(node))
        if isinstance(node, Literal):
            return self.literal(node.text)
        if isinstance(node, Repeat):
            return f"({self.node(node.item)}){_times(node)}"
        if isinstance(node, Choice):
            return "(" + " | ".join(self.node(option) for option in node.options) + ")"
        return "(" + " ".join(self.node(item) for item in node.items) + ")"

    def literal(self, text: str) -> str:
        if not text:
            return '""'
        if not self.by_character:
            return self.terminal(regex_of(text))
        return "(" + " ".join(self.terminal(f"[{regex_of(character)}]") for character in text) + ")"

    def terminal(self, regex: str) -> str:
        return self.terminals.setdefault(f"/{regex}/", f"C{len(self.terminals)}")


def _class(node: Chars) -> str:
    return "[" + "".join(f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in node.ranges) + "]"


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
