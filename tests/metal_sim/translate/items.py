"""The declarations of a Metal file, one by one: where each begins and ends and what kind it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .lexer import Token, match_bracket

_SIMPLE = {"using": "using", "typedef": "typedef", "static_assert": "assert"}
_RECORDS = ("struct", "union", "enum")


@dataclass
class Item:
    """Indices into the significant tokens: ``[start, end)``, the parts that a kind has, -1 for those it has not."""

    kind: str  # using, typedef, assert, record, namespace, constant, function, prototype, kernel, instantiation
    start: int
    end: int
    name: str = ""
    name_at: int = -1
    params: tuple[int, int] = (-1, -1)  # between the parentheses
    body: tuple[int, int] = (-1, -1)  # between the braces
    template: tuple[int, int] = (-1, -1)  # between the angle brackets
    attributes: list[tuple[int, int]] = field(default_factory=list)  # between the double brackets
    inside: list[Item] = field(default_factory=list)  # of a namespace


def attributes(tokens: list[Token], start: int, end: int) -> list[tuple[int, int]]:
    """Ranges of ``[[ ... ]]``, the brackets left out."""
    found, i = [], start
    while i + 1 < end:
        if tokens[i].text == "[" and tokens[i + 1].text == "[":
            close = match_bracket(tokens, i, end)
            found.append((i + 2, close - 1))
            i = close
        i += 1
    return found


def parse(tokens: list[Token], start: int = 0, end: int | None = None) -> Iterator[Item]:
    limit = len(tokens) if end is None else end
    while start < limit:
        item = _item(tokens, start, limit)
        start = item.end
        if item.kind != "empty":
            yield item


def walk(items: list[Item]) -> Iterator[Item]:
    for item in items:
        yield item
        yield from walk(item.inside)


def _item(tokens: list[Token], start: int, limit: int) -> Item:
    first = tokens[start].text
    if first == ";":
        return Item("empty", start, start + 1)
    if first in _SIMPLE:
        return Item(_SIMPLE[first], start, _until_semicolon(tokens, start, limit))
    if first in _RECORDS:
        return _record(tokens, start, start, limit)
    if first == "namespace":
        return _namespace(tokens, start, limit)
    if first == "template":
        if tokens[start + 1].text == "<":
            return _template(tokens, start, limit)
        item = Item("instantiation", start, _until_semicolon(tokens, start, limit))
        item.attributes = attributes(tokens, start, item.end)
        return item
    return _declaration(tokens, start, start, limit)


def _until_semicolon(tokens: list[Token], i: int, limit: int) -> int:
    while i < limit:
        if tokens[i].text in ("(", "[", "{"):
            i = match_bracket(tokens, i, limit)
        elif tokens[i].text == ";":
            return i + 1
        i += 1
    raise tokens[limit - 1].error("a declaration without its end")


def _record(tokens: list[Token], start: int, at: int, limit: int) -> Item:
    item = Item("record", start, _until_semicolon(tokens, at, limit))
    item.attributes = attributes(tokens, start, item.end)
    words = [i for i in range(at + 1, item.end) if tokens[i].text != "class"]
    if not words or tokens[words[0]].kind != "word":
        raise tokens[at].error("a struct, union or enum without a name")
    item.name, item.name_at = tokens[words[0]].text, words[0]
    braces = [i for i in range(at, item.end) if tokens[i].text == "{"]
    if braces:
        close = match_bracket(tokens, braces[0], item.end)
        item.body = (braces[0] + 1, close)
        if tokens[close + 1].text != ";":
            raise tokens[close + 1].error("declare the variable apart from its type")
    return item


def _namespace(tokens: list[Token], start: int, limit: int) -> Item:
    at = start + 1
    while at < limit and tokens[at].text != "{":
        at += 1
    close = match_bracket(tokens, at, limit)
    name = "".join(token.text for token in tokens[start + 1 : at])
    return Item("namespace", start, close + 1, name, inside=list(parse(tokens, at + 1, close)))


def _template(tokens: list[Token], start: int, limit: int) -> Item:
    close = match_bracket(tokens, start + 1, limit)
    first = tokens[close + 1].text
    if first in _RECORDS:
        item = _record(tokens, start, close + 1, limit)
    elif first == "using":
        item = Item("using", start, _until_semicolon(tokens, close + 1, limit))
    elif first == "template":
        raise tokens[start].error("a template of a template")
    else:
        item = _declaration(tokens, start, close + 1, limit)
    item.template = (start + 2, close)
    return item


def _declaration(tokens: list[Token], start: int, at: int, limit: int) -> Item:
    """A function, its prototype, or a variable in the constant address space."""
    i, name_at, params, assigned = at, -1, (-1, -1), False
    while i < limit:
        text = tokens[i].text
        if text == "[" or text == "<" and tokens[i - 1].kind == "word" and not assigned:
            i = match_bracket(tokens, i, limit)
        elif text == "(":
            close = match_bracket(tokens, i, limit)
            plain = not assigned and tokens[i - 1].kind == "word" and tokens[i - 1].text != "__attribute__"
            if plain and tokens[i - 1].text != "decltype" and name_at < 0:
                name_at, params = i - 1, (i + 1, close)
            elif not assigned and tokens[i - 1].text == ">" and name_at < 0:  # an explicit specialization
                open_at = _open_angle(tokens, i - 1, at)
                name_at, params = open_at - 1, (i + 1, close)
            i = close
        elif text == "=":
            assigned = True
        elif text == "{" and assigned:
            i = match_bracket(tokens, i, limit)
        elif text == "{":
            close = match_bracket(tokens, i, limit)
            if name_at < 0:
                raise tokens[at].error("declaration not understood")
            kind = "kernel" if _is_kernel(tokens, at, name_at) else "function"
            item = Item(kind, start, close + 1, tokens[name_at].text, name_at, params, (i + 1, close))
            item.attributes = attributes(tokens, at, i)
            return item
        elif text == ";":
            kind = "prototype" if params[0] >= 0 and not assigned else "constant"
            item = Item(kind, start, i + 1, tokens[name_at].text if name_at >= 0 else "", name_at, params)
            item.attributes = attributes(tokens, at, i)
            if kind == "constant":
                _check_constant(tokens, item, at)
            return item
        i += 1
    raise tokens[at].error("a declaration without its end")


def _open_angle(tokens: list[Token], close: int, at: int) -> int:
    depth = 0
    for i in range(close, at, -1):
        depth += (tokens[i].text == ">") - (tokens[i].text == "<")
        if depth == 0:
            return i
    raise tokens[close].error("no bracket opens this '>'")


def _is_kernel(tokens: list[Token], start: int, end: int) -> bool:
    return any(token.text == "kernel" for token in tokens[start:end])


def _check_constant(tokens: list[Token], item: Item, at: int) -> None:
    if not any(token.text == "constant" for token in tokens[at : item.end]):
        raise tokens[at].error("a variable at program scope must be in the constant address space")
