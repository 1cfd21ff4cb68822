"""Grammars of tool calls: once a model has begun a call, it can only write one that its tool's schema accepts.

What a grammar cannot say (the length of a bare string, a keyword that the engine lacks) the check of the finished
call still finds; see ``tools``.
"""

from __future__ import annotations

import json
from typing import Any

from ..errors import GrammarError
from ..grammar import Grammar, backend, lark, schema
from .tools import Tools

_BLANKS = 20  # of white space between two parts of JSON
_CLOSE = "</atem:parameter>"


def muse_call(tools: Tools, name: str) -> Grammar | None:
    """The body of a call to ``name``: the parameters in the order of the schema. None where there is no such tool."""
    if name not in tools.schemas:
        return None
    whole = tools.schemas[name]
    properties = whole.get("properties")
    required = whole.get("required")
    rules: list[str] = []
    for parameter, value in properties.items() if isinstance(properties, dict) else ():
        rule = _parameter(parameter, value if isinstance(value, dict) else {}, whole)
        rules.append(rule if isinstance(required, list) and parameter in required else f"({rule})?")
    return _made(
        " ".join(
            [
                _text(f'<atem:function_calls>\n<atem:invoke name="{name}">\n'),
                *rules,
                _text("</atem:invoke>\n</atem:function_calls>"),
            ]
        )
    )


def json_call(tools: Tools, key: str, close: str) -> Grammar | None:
    """``{"name": ..., KEY: {...}}`` for one of the tools, and what closes it; without that, several with ``;`` between."""
    options = []
    for name, whole in tools.schemas.items():
        keys = ['"name":', json.dumps(name) + ",", f'"{key}":']
        head = r"\{ ?" + " ?".join(map(lark.regex_of, keys)) + " ?"
        options.append(" ".join([_regex(head), _json(_closed(whole), whole), _regex(r" ?\}")]))
    call = "(" + " | ".join(f"({option})" for option in options) + ")"
    if close:
        return _made(" ".join([_regex(r"\n?"), call, _text(close)]))
    return _made(" ".join([_regex(r"[ \n]{0,8}"), call, "(", _regex("; ?"), call, ")*"]))


def _closed(whole: dict[str, Any]) -> dict[str, Any]:
    """An object of the parameters that the schema names: a model that may add others would."""
    if whole.keys() & {"additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref"}:
        return {**whole, "type": "object"}
    return {**whole, "type": "object", "additionalProperties": "properties" not in whole}


def _made(start: str) -> Grammar | None:
    text = f"{lark.HEADER}start: {start}\n"
    try:
        backend.check_grammar(text)
    except GrammarError:  # too large for the engine: the check of the finished call remains
        return None
    return Grammar._made("tool call", text)


def _parameter(name: str, value: dict[str, Any], whole: dict[str, Any]) -> str:
    kinds = value.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    options = value.get("enum")
    head = f'<atem:parameter name="{name}">'
    if isinstance(options, list) and options and all(isinstance(option, str) and _CLOSE not in option for option in options):
        choices = "|".join(lark.regex_of(option) for option in options)
        return _regex(f"{lark.regex_of(head)}(?:{choices}){lark.regex_of(_CLOSE)}\\n")
    if "string" in kinds or not kinds:
        # One lexeme with its end: the engine takes the longest one, and the text may hold beginnings of the end.
        return _regex(f"{lark.regex_of(head)}{_text_until(_CLOSE)}\\n")
    return " ".join([_text(head), _json(value, whole), _text(_CLOSE + "\n")])


def _json(value: dict[str, Any], whole: dict[str, Any]) -> str:
    """JSON by a schema, or any JSON of its outermost kind if the engine cannot keep it."""
    exact = {key: whole[key] for key in ("$defs", "definitions") if key in whole} | value
    rough = {key: element for key, element in value.items() if key == "type"}
    for candidate in (exact, rough):
        try:
            text = schema.write(candidate, _BLANKS)
            backend.check_grammar(text)
        except GrammarError:
            continue
        return text.removeprefix(f"{lark.HEADER}start: ").strip()
    return "%json {}"


def _text(text: str) -> str:
    return _regex(lark.regex_of(text))


def _regex(regex: str) -> str:
    return f"/{regex}/"


def _text_until(end: str) -> str:
    """A regular expression for any text without ``end`` in it, and ``end``, whose first character comes once in it."""
    first, rest = lark.regex_of(end[0]), end[1:]
    begun = ""  # any beginning of the rest, but not all of it
    for character in reversed(rest[:-1]):
        begun = f"(?:{lark.regex_of(character)}{begun})?"
    other = "|".join(f"{lark.regex_of(rest[:k])}[^{first}{lark.regex_of(rest[k])}]" for k in range(len(rest)))
    return f"(?:[^{first}]|(?:{first}{begun})*{first}(?:{other}))*(?:{first}{begun})*{lark.regex_of(end)}"
