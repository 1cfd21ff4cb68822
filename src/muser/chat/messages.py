"""Messages as a caller gives them, checked and made plain: what a template sees is text, numbers, lists and dicts.

The same clean-up as transformers': a key whose value is None is left out, and reasoning may be called
``reasoning_content``, ``reasoning`` or ``thinking``. Arguments of tool calls may come as JSON text, as OpenAI's do;
a template gets the object.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _checks as checks
from ..errors import ParameterError, TemplateError

ROLES = ("system", "developer", "user", "assistant", "tool", "ipython")
_REASONING = ("reasoning_content", "thinking", "reasoning")
_DEPTH = 64
_DEPTH_OF_ARGUMENTS = 3  # in tool_calls[i].function.arguments

Message = Mapping[str, Any]
"""``role`` (system, developer, user, assistant or tool) and ``content`` (text, or a list of ``{"type": "text",
"text": ...}``); for an assistant also ``reasoning_content`` and ``tool_calls``; for a tool ``tool_call_id`` and
``name``. Other keys reach the template as they are."""


def plain_messages(messages: object) -> list[dict[str, Any]]:
    """Raises ParameterError that names index and field."""
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise checks.refuse("messages", "must be a list of messages", messages)
    if not messages:
        raise checks.refuse("messages", "must hold at least one message", messages)
    return [_message(index, message) for index, message in enumerate(messages)]


class Parts(list[Any]):
    """The content of a message in parts. A template that prints them as they are would show the model Python's
    notation: it fails, and gets their text (:func:`with_text`)."""

    def __repr__(self) -> str:
        raise TypeError("parts of a message are no text")


def part_texts(messages: list[dict[str, Any]]) -> list[str]:
    """The texts of contents that are in parts."""
    return [part["text"] for message in messages if isinstance(message.get("content"), Parts) for part in message["content"]]


def with_text(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same messages, each with a text as its content: parts become its lines, and no content the empty one."""
    return [{**message, "content": _joined(message.get("content", ""))} for message in messages]


def _joined(content: Any) -> str:
    return "\n".join(part["text"] for part in content) if isinstance(content, Parts) else content


def wrong(parameter: str, index: int | None, field: str, rule: str, value: object) -> ParameterError:
    """``parameter[index].field`` breaks a rule."""
    place = parameter if index is None else f"{parameter}[{index}]"
    short = field if len(field) <= 80 else f"{field[:60]}..."  # keys are the caller's, and nest
    return ParameterError(
        f"{place}.{short} {rule}, not {checks.shown(value)}",
        parameter=parameter, index=index, field=field, value=value,
    )  # fmt: skip


def plain(parameter: str, index: int | None, field: str, value: object, depth: int = 0) -> Any:
    """A copy of JSON data: exact str, int, float, bool, None, list and dict."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise wrong(
                parameter, index, field, "must be text that UTF-8 can encode", text[error.start]
            ) from None
        return text
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if depth < _DEPTH and isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise wrong(parameter, index, field, "must have strings as keys", key)
        return {
            plain(parameter, index, field, key): plain(parameter, index, f"{field}.{key}", element, depth + 1)
            for key, element in value.items()
        }
    if depth < _DEPTH and isinstance(value, (list, tuple)):
        return [
            plain(parameter, index, f"{field}[{place}]", element, depth + 1) for place, element in enumerate(value)
        ]
    raise wrong(parameter, index, field, "must be JSON data, not too deep", value)


def plain_dict(parameter: str, index: int | None, given: Mapping[Any, Any]) -> dict[str, Any]:
    """The same of an argument, or an element of it, that is a dict; ``field`` begins with the key."""
    for key in given:
        if not isinstance(key, str):
            raise wrong(parameter, index, "keys", "must be strings", key)
    return {plain(parameter, index, "keys", key): plain(parameter, index, key, value, 1) for key, value in given.items()}


def place_of(text: str, value: object, field: str = "") -> str | None:
    """Where in plain data a string, or a key, holds ``text``."""
    if isinstance(value, str):
        return field if text in value else None
    found: list[str | None] = []
    if isinstance(value, dict):
        if any(text in key for key in value):
            return field
        found = [place_of(text, element, f"{field}.{key}" if field else key) for key, element in value.items()]
    elif isinstance(value, list):
        found = [place_of(text, element, f"{field}[{place}]") for place, element in enumerate(value)]
    return next((place for place in found if place is not None), None)


def unspelled(
    error: ParameterError, given: Mapping[str, list[dict[str, Any]]], source: str
) -> ParameterError | TemplateError:
    """The tokenizer's error about the whole prompt, as one about the message or tool that the text comes from; ``given``:
    all of them."""
    if not isinstance(error.value, str) or len(error.value) != 1:
        return ParameterError(f"messages: {error}", parameter="messages", value=error.value)
    rule = f"must be text that the vocabulary can spell, without {error.value!r}"
    for parameter, elements in given.items():
        for index, element in enumerate(elements):
            field = place_of(error.value, {key: value for key, value in element.items() if key != "thinking"})
            if field is not None:
                place = f"{parameter}[{index}].{field}" if field else f"{parameter}[{index}]"
                return ParameterError(f"{place} {rule}", parameter=parameter, index=index, field=field or None, value=error.value)
    if error.value in source:
        return TemplateError(f"the chat template writes {error.value!r}, which the vocabulary cannot spell")
    return ParameterError(f"messages {rule} in the prompt", parameter="messages", value=error.value)


def _message(index: int, message: object) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise checks.refuse("messages", "must be a dict", message, index)

    bad = functools.partial(wrong, "messages", index)
    given: dict[str, Any] = {}
    for key, value in message.items():
        if not isinstance(key, str):
            raise bad("keys", "must be strings", key)
        if value is not None:
            given[key] = plain("messages", index, key, value)
    role = given.get("role")
    if role not in ROLES:
        raise bad("role", f"must be one of {', '.join(ROLES)}", role)
    calls = given.get("tool_calls")
    if calls is not None:
        if role != "assistant":
            raise bad("tool_calls", "belong to an assistant", calls)
        if not isinstance(calls, list):
            raise bad("tool_calls", "must be a list", calls)
        given["tool_calls"] = [_call(index, f"tool_calls[{place}]", call) for place, call in enumerate(calls)]
    if "content" in given:
        _check_content(bad, given["content"])
        if not isinstance(given["content"], str):
            given["content"] = Parts(given["content"])
    elif not calls:
        raise bad("content", "is missing", None)
    for field in (*_REASONING, "name", "tool_call_id"):
        if field in given and not isinstance(given[field], str):
            raise bad(field, "must be text", given[field])
    reasoning = next((given[key] for key in _REASONING if key in given), None)
    return given if reasoning is None else {"thinking": reasoning, **given, "reasoning_content": reasoning}


def _check_content(bad: Any, content: object) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise bad("content", "must be text or a list of parts", content)
    for place, part in enumerate(content):
        if not isinstance(part, dict):
            raise bad(f"content[{place}]", "must be a dict", part)
        if part.get("type") != "text":
            raise bad(f"content[{place}].type", 'must be "text": this version takes no images', part.get("type"))
        if not isinstance(part.get("text"), str):
            raise bad(f"content[{place}].text", "must be text", part.get("text"))


def _call(index: int, field: str, call: object) -> dict[str, Any]:
    bad = functools.partial(wrong, "messages", index)
    if not isinstance(call, dict):
        raise bad(field, "must be a dict", call)
    function = call.get("function")
    if not isinstance(function, dict):
        raise bad(f"{field}.function", "must be a dict", function)
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise bad(f"{field}.function.name", "must be a name", function.get("name"))
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            pass
        else:  # by the rules of those that come as a dict, and as deep in the message
            arguments = plain("messages", index, f"{field}.function.arguments", arguments, _DEPTH_OF_ARGUMENTS)
    if not isinstance(arguments, dict):
        raise bad(f"{field}.function.arguments", "must be a dict, or the JSON of one", function.get("arguments"))
    return {**call, "function": {**function, "arguments": arguments}}
