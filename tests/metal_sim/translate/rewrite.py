"""Expressions that mean something else, or nothing, in C++: literals, vector constructors, address spaces."""

from __future__ import annotations

import re

from .lexer import Token, match_bracket
from .names import Names

_FLOAT = re.compile(r"(?!0[xX])(?=[\d.]*[.eE]|\d+[fFhH]$|\d+bf$)([\d.]+(?:[eE][+-]?\d+)?)(f|F|h|H|bf|BF)?$")


def literals(tokens: list[Token]) -> None:
    """Metal has no double: a literal without a suffix is a float."""
    for token in tokens:
        if token.kind != "number":
            continue
        match = _FLOAT.match(token.text)
        if match:
            digits, suffix = match.group(1), (match.group(2) or "f").lower()
            digits += "" if re.search(r"[.eE]", digits) else ".0"
            kind = {"h": "half", "bf": "bfloat"}.get(suffix)
            token.out = f"({kind}({digits}f))" if kind else f"{digits}f"
        elif not re.match(r"(?:0[xX][\da-fA-F]+|0[bB][01]+|\d+)(?:[uU]?[lL]?|[lL][uU])$", token.text):
            raise token.error(f"literal not understood: {token.text}")


def vector_constructors(tokens: list[Token], names: Names) -> None:
    """``float4(a, b)``: clang's vectors have no constructors; the stand-in's ``make`` does it."""
    for i, token in enumerate(tokens):
        previous = tokens[i - 1].text if i else ""
        if token.kind != "word" or i + 1 == len(tokens):
            continue
        if token.text in names.vectors | names.type_parameters and tokens[i + 1].text == "(":
            if previous not in ("operator", "decltype"):
                token.out = f"::msl::make<{token.text}>"
        elif token.text == "vec" and tokens[i + 1].text == "<":
            close = match_bracket(tokens, i + 1)
            if tokens[close + 1].text == "(":
                token.out = "::msl::make<vec"
                tokens[close].out = ">>"
        elif token.text in names.vectors:
            _refuse_cast(tokens, i, token)


def _refuse_cast(tokens: list[Token], i: int, token: Token) -> None:
    """``(float4)x`` means something else in clang's C++; ``(float4 *)p`` is no vector cast."""
    if i == 0 or tokens[i - 1].text != "(" or tokens[i + 1].text != ")" or i + 2 >= len(tokens):
        return
    before, after = tokens[i - 2], tokens[i + 2]
    keyword = before.text in ("return", "case", "else")
    called = (before.kind == "word" and not keyword) or before.text in (")", "]", ">")
    if not called and (after.kind in ("word", "number") or after.text in ("(", "-", "~", "+")):
        raise token.error(f"write {token.text}(x), not ({token.text})x")


def address_spaces(tokens: list[Token], space: dict[str, str]) -> None:
    for i, token in enumerate(tokens):
        if token.text not in space or token.out is not None:
            continue
        if token.text == "threadgroup":
            _must_be_pointer(tokens, i)
        token.out = space[token.text]


def _must_be_pointer(tokens: list[Token], at: int) -> None:
    """A threadgroup variable that the translator missed would become each thread's own: refuse it."""
    i = at + 1
    while i < len(tokens):
        text = tokens[i].text
        if text in ("*", "&", ">"):  # in a template argument the star may be elsewhere
            return
        if text == "(" and tokens[i + 1].text in ("*", "&"):
            return
        if text == "<":
            i = match_bracket(tokens, i)
        elif tokens[i].kind != "word" and text != "::":
            raise tokens[at].error("threadgroup declaration not understood")
        i += 1
