"""Which words of a file name types: the builtin ones, those it declares, and its template parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .items import Item, walk
from .lexer import Token, match_bracket, split_commas

_SCALARS = ("float", "half", "bfloat", "int", "uint", "short", "ushort", "char", "uchar", "long", "ulong")
VECTORS = {f"{scalar}{n}" for scalar in _SCALARS for n in (2, 3, 4)} | {"bool2", "bool3", "bool4"}
_MATRICES = {f"{scalar}{c}x{r}" for scalar in ("float", "half") for c in (2, 3, 4) for r in (2, 3, 4)}
_OTHERS = {"bool", "void", "size_t", "ptrdiff_t", "auto", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t"}
_OTHERS |= {"uint32_t", "int64_t", "uint64_t", "atomic_int", "atomic_uint", "atomic_bool", "atomic_float"}
_OTHERS |= {"simdgroup_float8x8", "simdgroup_half8x8", "simdgroup_bfloat8x8", "unsigned", "signed"}


@dataclass
class Names:
    types: set[str] = field(default_factory=lambda: set(_SCALARS) | VECTORS | _MATRICES | _OTHERS)
    vectors: set[str] = field(default_factory=lambda: set(VECTORS))
    type_parameters: set[str] = field(default_factory=set)


def collect(tokens: list[Token], items: Iterable[Item]) -> Names:
    names = Names()
    for item in walk(list(items)):
        if item.template[0] >= 0:
            _template_parameters(tokens, item, names)
        if item.kind == "record":
            names.types.add(item.name)
    for i, token in enumerate(tokens):
        if token.text == "typedef":
            _alias(tokens, i + 1, _name_before_semicolon(tokens, i), names)
        elif token.text == "using" and i + 2 < len(tokens) and tokens[i + 2].text == "=":
            _alias(tokens, i + 3, i + 1, names)
        elif token.text in ("struct", "union") and i + 1 < len(tokens) and tokens[i + 1].kind == "word":
            names.types.add(tokens[i + 1].text)
    return names


def _template_parameters(tokens: list[Token], item: Item, names: Names) -> None:
    for start, end in split_commas(tokens, *item.template):
        if tokens[start].text in ("typename", "class") and start + 1 < end and tokens[start + 1].kind == "word":
            names.type_parameters.add(tokens[start + 1].text)
            names.types.add(tokens[start + 1].text)


def _name_before_semicolon(tokens: list[Token], i: int) -> int:
    while tokens[i].text != ";":
        i += 1
    return i - 1


def _alias(tokens: list[Token], type_at: int, name_at: int, names: Names) -> None:
    name = tokens[name_at].text
    names.types.add(name)
    first = tokens[type_at].text
    is_vector = first in names.vectors or (first == "vec" and tokens[type_at + 1].text == "<")
    end = match_bracket(tokens, type_at + 1) + 1 if first == "vec" and is_vector else type_at + 1
    if is_vector and tokens[end].text in (";", name):
        names.vectors.add(name)
