"""Schemas that no finite JSON satisfies, because each value needs another one inside.

The engine would let a model write for ever. Where this check cannot tell (references to other documents, keywords
that only narrow), it lets a schema pass.
"""

from __future__ import annotations

from typing import Any, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = dict[str, Any]

_DATA = ("const", "enum", "default", "examples")  # values, not schemas
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")  # schemas by names of their own
_NESTED = {"object", "array"}
_MAX_PASSES = 60


def nodes(tree: Schema) -> list[tuple[str, Schema]]:
    """Every object in the tree that can be a schema, with its place as a JSON pointer; outer ones first."""
    found: list[tuple[str, Schema]] = []
    stack: list[tuple[str, Any, bool]] = [("#", tree, False)]
    while stack:
        place, value, named = stack.pop()
        if named and isinstance(value, dict):
            inner = list(value.items())
        elif isinstance(value, dict):
            found.append((place, value))
            inner = [(key, part) for key, part in value.items() if key not in _DATA]
        elif isinstance(value, list):
            inner = [(str(index), part) for index, part in enumerate(value)]
        else:
            continue
        plain = isinstance(value, dict) and not named
        stack.extend((f"{place}/{_escaped(key)}", part, plain and key in _NAMED) for key, part in reversed(inner))
    return found


def endless(tree: Schema) -> str | None:
    """The place of the first schema without a finite value, or None."""
    rest = list(reversed(nodes(tree)))
    targets = {place: node for place, node in rest}
    finite: set[int] = set()
    for _ in range(_MAX_PASSES):
        before = len(finite)
        for _, node in rest:
            if _ends(node, finite, targets):
                finite.add(id(node))
        rest = [pair for pair in rest if id(pair[1]) not in finite]
        if len(finite) == before:
            return rest[-1][0] if rest else None
    return None


def _ends(node: Schema, finite: set[int], targets: dict[str, Schema]) -> bool:
    def ends(part: object) -> bool:
        return not isinstance(part, dict) or id(part) in finite

    if "const" in node or "enum" in node:
        return True
    ref = node.get("$ref")
    if isinstance(ref, str) and ref.startswith("#") and not ends(targets.get(_normal(ref))):
        return False
    if not all(ends(part) for part in _list(node.get("allOf"))):
        return False
    for key in ("anyOf", "oneOf"):
        options = _list(node.get(key))
        if options and not any(ends(part) for part in options):
            return False
    kinds = node.get("type")
    kinds = {kinds} if isinstance(kinds, str) else {kind for kind in _list(kinds) if isinstance(kind, str)}
    if not kinds or not kinds <= _NESTED:
        return True
    return ("object" in kinds and _object_ends(node, ends)) or ("array" in kinds and _array_ends(node, ends))


def _object_ends(node: Schema, ends: Any) -> bool:
    properties = node.get("properties")
    if not isinstance(properties, dict):
        return True
    return all(ends(properties.get(name)) for name in _list(node.get("required")) if isinstance(name, str))


def _array_ends(node: Schema, ends: Any) -> bool:
    least = node.get("minItems")
    count = int(least) if isinstance(least, (int, float)) else 0
    first = _list(node.get("prefixItems"))
    return all(ends(part) for part in first[: max(count, 0)]) and (count <= len(first) or ends(node.get("items")))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _normal(ref: str) -> str:
    """A reference into this document as :func:`nodes` spells places."""
    parts = unquote(ref).split("/")
    return "/".join([parts[0], *(_escaped(part.replace("~1", "/").replace("~0", "~")) for part in parts[1:])])
