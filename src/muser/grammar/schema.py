"""JSON schemas: what the engine does not check by itself, and the schema as the engine's notation takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from .. import _checks as checks
from ..errors import GrammarError, GrammarLimitError
from . import schema_numbers
from .lark import HEADER
from .places import MAX_LENGTH, Source
from .schema_ends import endless, nodes

# The engine's time grows with the squares of these; each bound is about two seconds of it.
MAX_PROPERTIES = 500  # of one object
MAX_OPTIONAL = 500_000  # the sum of the squares of the numbers of optional properties
MAX_REFERENCES = 2_000
_OPTIONS = "x-guidance"


def write(schema: object, max_whitespace: int) -> str:
    """GrammarError for what is no schema, or has no end, or is too large."""
    tree = _tree(schema)
    if isinstance(tree, dict):
        _check(tree)
    tree = {} if tree is True else tree
    if isinstance(tree, dict):
        blanks = rf" |\n[ \t]{{0,{max_whitespace - 1}}}"
        options = {"whitespace_pattern": blanks} if max_whitespace else {"whitespace_flexible": False}
        tree = {**tree, _OPTIONS: options}
    return f"{HEADER}start: %json {json.dumps(tree)}\n"


def _tree(schema: object) -> object:
    """The schema as plain JSON values of its own: the caller may change what was given."""
    if isinstance(schema, str):
        source = Source("schema", schema)
        text = schema
    elif isinstance(schema, (Mapping, bool)):
        source = None
        try:
            text = json.dumps(dict(schema) if isinstance(schema, Mapping) else schema, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise GrammarError(f"the schema is not JSON: {error}") from None
        except RecursionError:
            raise GrammarLimitError("the schema is nested too deeply") from None
        if len(text) > MAX_LENGTH:
            raise GrammarLimitError(f"the schema has more than {MAX_LENGTH} characters")
    else:
        raise checks.refuse("schema", "must be a mapping, a bool or a str of JSON", schema)
    try:
        tree = json.loads(text, parse_float=schema_numbers.parse_float, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        if source is None:
            raise GrammarError(f"the schema is not JSON: {error.msg}") from None
        raise source.error(error.msg, error.pos) from None
    except ValueError as error:
        raise GrammarError(f"the schema is not JSON: {error}") from None
    except RecursionError:
        raise GrammarLimitError("the schema is nested too deeply") from None
    if not isinstance(tree, (dict, bool)):
        raise GrammarError("a schema is an object, true or false")
    return tree


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _check(tree: dict[str, object]) -> None:
    if _OPTIONS in tree:
        raise GrammarError(f'the keyword "{_OPTIONS}" is not supported')
    references = optional = 0
    for place, node in nodes(tree):
        properties = node.get("properties")
        if isinstance(properties, dict):
            if len(properties) > MAX_PROPERTIES:
                raise GrammarLimitError(f"{place} has more than {MAX_PROPERTIES} properties")
            required = node.get("required")
            optional += (len(properties) - sum(name in properties for name in _names(required))) ** 2
        references += "$ref" in node
    if references > MAX_REFERENCES:
        raise GrammarLimitError(f"the schema has more than {MAX_REFERENCES} references")
    if optional > MAX_OPTIONAL:
        raise GrammarLimitError(
            f"the schema has too many optional properties: the squares of their numbers are {optional} together, "
            f"and at most {MAX_OPTIONAL} are allowed"
        )
    without_end = endless(tree)
    if without_end is not None:
        raise GrammarError(f"{without_end} never ends: each value of it would have to hold another one")
    schema_numbers.settle(tree)


def _names(required: object) -> set[str]:
    return {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
