"""The tools that a model may call, and whether the arguments of a call are what the tool's schema asks for."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import _checks as checks
from ..grammar.schema_numbers import fraction
from .messages import plain_dict, wrong

if TYPE_CHECKING:
    from ..grammar import Grammar

_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_LONGEST_NAME = 128

Tool = Mapping[str, Any]
"""``{"type": "function", "function": {"name": ..., "description": ..., "parameters": JSON schema}}``, or the inner
part alone."""


class Tools:
    """``listed``: as the template gets them. Immutable after construction.

    Raises ParameterError (``parameter="tools"``, ``index``, ``field``) for a tool without a proper name, a name
    that comes twice, or parameters that are no JSON schema (draft 2020-12, unless its ``$schema`` says otherwise).
    """

    def __init__(self, tools: object) -> None:
        if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Sequence):
            raise checks.refuse("tools", "must be a list of tools or None", tools)
        self.listed: list[dict[str, Any]] = []
        self.schemas: dict[str, dict[str, Any]] = {}
        self._validators: dict[str, Any] = {}
        self._grammars: dict[tuple[str, str], Grammar | None] = {}
        for index, tool in enumerate(tools):
            self._add(index, tool)

    def _add(self, index: int, tool: object) -> None:
        if not isinstance(tool, Mapping):
            raise checks.refuse("tools", "must be a dict", tool, index)
        listed: dict[str, Any] = plain_dict("tools", index, tool)
        inside = "function." if "function" in listed else ""
        function = listed.get("function", listed)
        if not isinstance(function, dict):
            raise wrong("tools", index, "function", "must be a dict", function)
        name = function.get("name")
        if not isinstance(name, str) or len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
            raise wrong("tools", index, f"{inside}name", "must be a name of letters, digits, _, - and dots", name)
        if name in self.schemas:
            raise wrong("tools", index, f"{inside}name", "must not come twice", name)
        schema = function.get("parameters", {})
        if not isinstance(schema, dict):
            raise wrong("tools", index, f"{inside}parameters", "must be a JSON schema", schema)
        self._validators[name] = _validator(index, f"{inside}parameters", schema)
        self.schemas[name] = schema
        self.listed.append(listed)

    def known(self, name: str) -> str:
        """The tool that a model means by ``name``: Muse Glimmer, trained on ``namespace.function``, calls a tool
        without a namespace ``name.name``."""
        first, _, last = name.partition(".")
        return first if name not in self.schemas and first == last and first in self.schemas else name

    def property_schema(self, tool: str, name: str) -> dict[str, Any]:
        """The schema of one parameter; empty where there is none."""
        properties = self.schemas.get(tool, {}).get("properties", {})
        found = properties.get(name, {}) if isinstance(properties, dict) else {}
        return found if isinstance(found, dict) else {}

    def grammar(self, protocol: str, name: str) -> Grammar | None:
        """What a call must look like. Made when it is first needed, in a millisecond or a few."""
        from . import call_grammar

        key = (protocol, name)
        if key not in self._grammars:
            if protocol == "muse":
                self._grammars[key] = call_grammar.muse_call(self, name)
            elif protocol == "tags":
                self._grammars[key] = call_grammar.json_call(self, "arguments", "\n</tool_call>")
            else:
                self._grammars[key] = call_grammar.json_call(self, "parameters", "")
        return self._grammars[key]

    def problem(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """What is wrong with a call, in one line; None if nothing is."""
        validator = self._validators.get(name)
        if validator is None:
            return f"there is no tool {name!r}"
        try:
            error = next(iter(validator.iter_errors(arguments)), None)
        except Exception as failure:  # a number beyond float at "multipleOf", a "$ref" to nowhere: never the chat's end
            return f"the arguments cannot be checked ({type(failure).__name__})"
        return None if error is None else f"{error.json_path}: {error.message}"[:500]


def _multiple_of(_: object, step: Any, value: Any, __: object) -> Iterator[Any]:
    """In decimals, as they are written: as binary fractions, 4.35 is no multiple of 0.01."""
    import jsonschema  # type: ignore[import-untyped]

    if isinstance(value, (int, float)) and not isinstance(value, bool) and fraction(value) % fraction(step):
        yield jsonschema.ValidationError(f"{value!r} is not a multiple of {step!r}")


@functools.cache
def _with_decimals(kind: Any) -> Any:
    """A class of validators, made once: it takes longer than most checks."""
    import jsonschema

    return jsonschema.validators.extend(kind, {"multipleOf": _multiple_of})


def _validator(index: int, field: str, schema: dict[str, Any]) -> Any:
    import jsonschema  # a tenth of a second: only for those who use tools
    import referencing

    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise wrong("tools", index, field, f"must be a JSON schema ({error.message[:200]})", schema) from None
    return _with_decimals(kind)(schema, registry=referencing.Registry())  # an empty one: nothing is fetched
