"""Function constants and what is computed from them.

Their values are known when a pipeline is made, so each becomes a variable that the runtime sets before a dispatch and
a function that reads it; a constant derived from one becomes a function too. Every use becomes a call.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .items import Item
from .lexer import Token, match_bracket, source

# The type of a function constant, and its MTLDataType.
DATA_TYPES = {"bool": 53, "short": 37, "ushort": 41, "int": 29, "uint": 33, "float": 3, "half": 16}


@dataclass
class FunctionConstants:
    declared: list[tuple[str, int, str]] = field(default_factory=list)  # name, index, type
    callable: set[str] = field(default_factory=set)  # these and the derived ones


def rewrite_constants(tokens: list[Token], items: list[Item]) -> FunctionConstants:
    found = FunctionConstants()
    for item in items:
        if item.kind == "namespace":
            for inner in item.inside:
                if inner.attributes:
                    raise tokens[inner.start].error("declare function constants outside of namespaces")
        if item.kind != "constant":
            continue
        if item.attributes:
            _declare(tokens, item, found)
        else:
            _derive(tokens, item, found)
    _uses(tokens, found)
    return found


def _declare(tokens: list[Token], item: Item, found: FunctionConstants) -> None:
    start, end = item.attributes[0]
    if tokens[start].text != "function_constant" or len(item.attributes) > 1 or end != start + 4:
        raise tokens[start].error(f"attribute {tokens[start].text} is not understood")
    words = [token.text for token in tokens[item.start : start - 2] if token.text not in ("constant", "const")]
    if len(words) != 2 or words[0] not in DATA_TYPES:
        raise tokens[item.start].error("a function constant is 'constant TYPE NAME [[function_constant(N)]]'")
    kind, name = words
    index = int(tokens[start + 2].text)
    if any(index == other for _, other, _ in found.declared):
        raise tokens[item.start].error(f"function constant {index} is declared twice")
    found.declared.append((name, index, kind))
    found.callable.add(name)
    _replace(tokens, item, f"MSL_FUNCTION_CONSTANT({kind}, {name}, {index})")


def _derive(tokens: list[Token], item: Item, found: FunctionConstants) -> None:
    words = [token.text for token in tokens[item.start : item.end]]
    if not found.callable.intersection(words):
        return
    equals = words.index("=") if "=" in words else 0
    head = [word for word in words[:equals] if word not in ("constant", "const", "static")]
    if len(head) != 2:
        raise tokens[item.start].error("a constant computed from a function constant is 'constant TYPE NAME = ...'")
    _uses(tokens[item.start : item.end], found)
    value = source(tokens[item.start + equals + 1 : item.end - 1])
    found.callable.add(head[1])
    _replace(tokens, item, f"static inline {head[0]} {head[1]}() {{ return ({value}); }}")


def _replace(tokens: list[Token], item: Item, text: str) -> None:
    for token in tokens[item.start : item.end]:
        token.out = ""
    tokens[item.start].out = text


def _uses(tokens: list[Token], found: FunctionConstants) -> None:
    skip = -1
    for i, token in enumerate(tokens):
        if i <= skip or token.out is not None:
            continue
        if token.text == "is_function_constant_defined":
            skip = match_bracket(tokens, i + 1)
            name = tokens[i + 2]
            if skip != i + 3 or name.text not in found.callable:
                raise token.error("is_function_constant_defined needs the name of a function constant")
            token.out, tokens[i + 1].out, name.out, tokens[i + 3].out = f"{name.text}_is_set", "", "", ""
        elif token.text in found.callable and not (i and tokens[i - 1].text in (".", "->", "::")):
            token.out = f"{token.text}()"
