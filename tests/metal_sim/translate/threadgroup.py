"""Threadgroup variables of a kernel: ``threadgroup T name[N];`` becomes a reference into the threadgroup's arena."""

from __future__ import annotations

from dataclasses import dataclass

from .items import Item
from .lexer import Token, match_bracket, source


@dataclass
class Variable:
    type: str
    name: str
    dimensions: str


def rewrite_threadgroup(tokens: list[Token], item: Item, next_id: int) -> int:
    """Rewrites the variables of one function; returns the next free id. Only kernels may have some."""
    i, end = item.body
    while i < end:
        if tokens[i].text == "threadgroup" and tokens[i - 1].text in (";", "{", "}"):
            stop = i
            while tokens[stop].text != ";":
                stop += 1
            if not _is_pointer(tokens, i, stop):
                if item.kind != "kernel":
                    raise tokens[i].error("only a kernel can declare threadgroup variables")
                variable = _read(tokens, i, stop)
                text = f"MSL_THREADGROUP({next_id}, {variable.name}, ({variable.type}), {variable.dimensions})"
                for token in tokens[i:stop]:
                    token.out = ""
                tokens[i].out = text
                next_id += 1
            i = stop
        i += 1
    return next_id


def _is_pointer(tokens: list[Token], start: int, stop: int) -> bool:
    i = start
    while i < stop and tokens[i].text not in ("=", "["):
        if tokens[i].text == "<":
            i = match_bracket(tokens, i)
        elif tokens[i].text in ("*", "&"):
            return True
        i += 1
    return False


def _read(tokens: list[Token], start: int, stop: int) -> Variable:
    i, words_end = start + 1, start + 1
    while i < stop and tokens[i].text != "[":
        if tokens[i].text == "<":
            i = match_bracket(tokens, i)
        elif tokens[i].kind != "word" and tokens[i].text != "::":
            raise tokens[i].error("write one threadgroup variable a declaration, without an initializer")
        i += 1
    words_end = i
    while i < stop:
        if tokens[i].text != "[":
            raise tokens[i].error("write one threadgroup variable a declaration, without an initializer")
        i = match_bracket(tokens, i) + 1
    if words_end - start < 3 or tokens[words_end - 1].kind != "word":
        raise tokens[start].error("threadgroup declaration not understood")
    kind = source(tokens[start + 1 : words_end - 1])
    return Variable(kind, tokens[words_end - 1].text, source(tokens[words_end:stop]))
