"""Reads GBNF, llama.cpp's notation for grammars (``grammars/README.md`` there), into nodes.

A rule is ``name ::= alternatives`` and ends with its line; inside parentheses, after ``::=`` and around ``|`` a
line may end anywhere. Every error says at which line and column.
"""

from __future__ import annotations

import re

from .nodes import LAST, SURROGATES, Literal, Node, Ref, Repeat, Rule, chars, choice, sequence
from .places import Source

MAX_NESTING = 64  # parentheses; each costs stack here and in the engine
MAX_REPEAT = 1_000_000

_BLANKS = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_BLANKS_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_REPEAT = re.compile(r"\{[ \t]*([0-9]*)[ \t]*(,?)[ \t]*([0-9]*)[ \t]*\}")
_HEX = {"x": re.compile(r"[0-9A-Fa-f]{2}"), "u": re.compile(r"[0-9A-Fa-f]{4}"), "U": re.compile(r"[0-9A-Fa-f]{8}")}
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "[": "[", "]": "]", "-": "-", "^": "^"}
_TIMES = {"*": (0, None), "+": (1, None), "?": (0, 1)}


def parse(source: Source) -> dict[str, Rule]:
    """The rules by name, in the order of the text. GrammarError for what is no GBNF."""
    reader = _Reader(source)
    rules: dict[str, Rule] = {}
    reader.skip(lines=True)
    while reader.at < len(source.text):
        rule = reader.rule()
        if rule.name in rules:
            raise source.error(f"the rule {rule.name} is defined twice", rule.offset)
        rules[rule.name] = rule
    return rules


class _Reader:
    """``at`` is the offset of the next character."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.at = 0

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def skip(self, *, lines: bool) -> None:
        match = (_BLANKS_AND_LINES if lines else _BLANKS).match(self.text, self.at)
        assert match is not None  # it matches nothing, too
        self.at = match.end()

    def rule(self) -> Rule:
        start = self.at
        name = self.name("a rule's name (letters, digits, - and _)")
        self.skip(lines=False)
        if not self.text.startswith("::=", self.at):
            raise self.source.expected("::=", self.at)
        self.at += 3
        self.skip(lines=True)
        body = self.alternatives(0)
        if self.peek() not in ("", "\r", "\n"):
            raise self.source.expected("the end of the rule", self.at)
        self.skip(lines=True)
        return Rule(name, start, body)

    def name(self, what: str) -> str:
        match = _NAME.match(self.text, self.at)
        if match is None:
            raise self.source.expected(what, self.at)
        self.at = match.end()
        return match.group()

    def alternatives(self, depth: int) -> Node:
        options = [self.sequence(depth)]
        while self.bar():
            self.skip(lines=True)
            options.append(self.sequence(depth))
        return choice(options)

    def bar(self) -> bool:
        """Also on the next line: no rule begins with it."""
        before = self.at
        self.skip(lines=True)
        if self.peek() == "|":
            self.at += 1
            return True
        self.at = before
        return False

    def sequence(self, depth: int) -> Node:
        items: list[Node] = []
        self.skip(lines=depth > 0)
        while (item := self.item(depth)) is not None:
            self.skip(lines=depth > 0)
            while (times := self.times()) is not None:
                item = Repeat(item, *times) if times[1] != 0 else Literal("")
                self.skip(lines=depth > 0)
            items.append(item)
        return sequence(items) if items else Literal("")

    def item(self, depth: int) -> Node | None:
        character = self.peek()
        if character == '"':
            return self.literal()
        if character == "[":
            return self.character_class()
        if character == "(":
            return self.group(depth + 1)
        if character == ".":
            self.at += 1
            return chars([(0, LAST)])
        if character in ("<", "!"):
            raise self.source.error("tokens in a grammar are not supported; write the text", self.at)
        if _NAME.match(self.text, self.at):
            start = self.at
            return Ref(self.name("a name"), start)
        return None

    def group(self, depth: int) -> Node:
        if depth > MAX_NESTING:
            raise self.source.error(f"parentheses are nested more than {MAX_NESTING} deep", self.at)
        start = self.at
        self.at += 1
        body = self.alternatives(depth)
        self.skip(lines=True)
        if self.peek() != ")":
            if self.at == len(self.text):
                raise self.source.error("this parenthesis is never closed", start)
            raise self.source.expected(")", self.at)
        self.at += 1
        return body

    def times(self) -> tuple[int, int | None] | None:
        character = self.peek()
        if character in _TIMES and character:
            self.at += 1
            return _TIMES[character]
        if character != "{":
            return None
        match = _REPEAT.match(self.text, self.at)
        if match is None or not (match.group(1) or match.group(3)):
            raise self.source.error("a repetition is {m}, {m,}, {,n} or {m,n}", self.at)
        low_digits, comma, high_digits = match.groups()
        if max(len(low_digits), len(high_digits)) > len(str(MAX_REPEAT)):
            raise self.source.error(f"a repetition is at most {MAX_REPEAT} times", self.at)
        low = int(low_digits or 0)
        high = low if not comma else int(high_digits) if high_digits else None
        if max(low, high or 0) > MAX_REPEAT:
            raise self.source.error(f"a repetition is at most {MAX_REPEAT} times", self.at)
        if high is not None and high < low:
            raise self.source.error(f"a repetition of at least {low} and at most {high} times", self.at)
        self.at = match.end()
        return low, high

    def literal(self) -> Node:
        start = self.at
        self.at += 1
        text: list[str] = []
        while (character := self.peek()) != '"':
            if character in ("", "\n", "\r"):
                raise self.source.error("this string is never closed", start)
            text.append(self.character())
        self.at += 1
        return Literal("".join(text))

    def character_class(self) -> Node:
        start = self.at
        self.at += 1
        negated = self.peek() == "^"
        self.at += negated
        ranges: list[tuple[int, int]] = []
        while (character := self.peek()) != "]":
            if character in ("", "\n", "\r"):
                raise self.source.error("this class is never closed", start)
            place = self.at
            low = high = ord(self.character())
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = ord(self.character())
            if high < low:
                raise self.source.error("this range goes backwards", place)
            ranges.append((low, high))
        self.at += 1
        found = chars(ranges, negated=negated)
        if not found.ranges:
            raise self.source.error("no character is in this class", start)
        return found

    def character(self) -> str:
        """One character of a string or class, as itself or escaped."""
        start = self.at
        character = self.peek()
        self.at += 1
        if character != "\\":
            return character
        kind = self.peek()
        self.at += 1
        if kind in _ESCAPES:
            return _ESCAPES[kind]
        match = _HEX[kind].match(self.text, self.at) if kind in _HEX else None
        if match is None:
            raise self.source.error(r'an escape is one of \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH', start)
        self.at = match.end()
        code = int(match.group(), 16)
        if code > LAST or SURROGATES[0] <= code <= SURROGATES[1]:
            raise self.source.error(f"U+{code:04X} is not a character", start)
        return chr(code)
