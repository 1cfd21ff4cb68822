"""Preprocessed Metal source as tokens that know their file and line.

The text of all tokens, joined, is the input again: what the translator does not rewrite keeps its line and column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import MetalSyntaxError

_PATTERN = re.compile(
    r"""
    (?P<marker>^\#[ ]\d+[ ]"[^"\n]*"[^\n]*)            # where the next line comes from
  | (?P<pragma>^\#[ ]?pragma[^\n]*)
  | (?P<newline>\n)
  | (?P<space>[ \t\f\r\v]+)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<word>[A-Za-z_]\w*)
  | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
  | (?P<mark>::|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|<<=|<<|\.\.\.|[][(){}<>;,:?.~!%^&*+=|/-])
    """,
    re.VERBOSE | re.MULTILINE,
)
_QUIET = ("newline", "space", "marker", "pragma")


@dataclass
class Token:
    """``out`` is what the translator writes in its place; None: the text as it is."""

    kind: str
    text: str
    file: str
    line: int
    out: str | None = None

    def error(self, message: str) -> MetalSyntaxError:
        return MetalSyntaxError(message, self.file, self.line)

    def __str__(self) -> str:
        return self.text if self.out is None else self.out


def tokenize(text: str, file: str) -> list[Token]:
    tokens: list[Token] = []
    line, at = 1, 0
    while at < len(text):
        match = _PATTERN.match(text, at)
        if not match:
            raise MetalSyntaxError(f"character not understood: {text[at]!r}", file, line)
        kind = str(match.lastgroup)
        tokens.append(Token(kind, match.group(), file, line))
        at = match.end()
        if kind == "newline":
            line += 1
        elif kind == "marker":
            number, file = re.match(r'# (\d+) "([^"]*)"', match.group()).groups()  # type: ignore[union-attr]
            line = int(number) - 1
    return tokens


def significant(tokens: list[Token]) -> list[Token]:
    """Without white space, line markers and pragmas: what a parser looks at."""
    return [token for token in tokens if token.kind not in _QUIET]


_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}


def match_bracket(tokens: list[Token], start: int, end: int | None = None) -> int:
    """The index of the bracket that closes ``tokens[start]``. Angle brackets only inside themselves and round ones."""
    opening = tokens[start].text
    closing = _CLOSING[opening]
    depth, i = 0, start
    limit = len(tokens) if end is None else end
    while i < limit:
        text = tokens[i].text
        if text == opening:
            depth += 1
        elif text == closing:
            depth -= 1
            if depth == 0:
                return i
        elif opening == "<" and text == "(":
            i = match_bracket(tokens, i, end)
        elif opening == "<" and text in ";{}":
            break
        i += 1
    raise tokens[start].error(f"no bracket closes this {opening!r}")


def split_commas(tokens: list[Token], start: int, end: int) -> list[tuple[int, int]]:
    """Ranges between the commas of ``tokens[start:end]`` that are in no bracket (angle brackets of types included)."""
    parts, begin, i = [], start, start
    while i < end:
        text = tokens[i].text
        if text in ("(", "[", "{") or text == "<" and i > start and tokens[i - 1].kind == "word":
            i = match_bracket(tokens, i)
        elif text == ",":
            parts.append((begin, i))
            begin = i + 1
        i += 1
    if begin < end:
        parts.append((begin, end))
    return parts


def source(tokens: list[Token]) -> str:
    """The text of significant tokens, with a space where two words would run together."""
    out = ""
    for token in tokens:
        text = str(token)
        if out and (out[-1].isalnum() or out[-1] == "_") and (text[:1].isalnum() or text[:1] == "_"):
            out += " "
        out += text
    return out
