"""Muse Glimmer's answers. The prompt ends with ``<|start|>assistant``; then come messages of the form
`` to=RECIPIENT<|message|>BODY`` which end with ``<|eom|>`` and are followed by another ``<|start|>assistant``, or end
with ``<|eot|>``, the end of the answer. To ``self`` the model thinks, to ``user`` it answers; any other recipient is
a tool, and the body is its call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .parts import Part, ReasoningPart, TextPart
from .reader import Calls, OpenCall, TokenText, json_value

if TYPE_CHECKING:
    from ..grammar import Grammar
    from ..text import Tokenizer

_START, _MESSAGE, _EOM, _EOT = "<|start|>", "<|message|>", "<|eom|>", "<|eot|>"
_RECIPIENT = re.compile(r" to=(\S+)\s*")
_LONGEST_HEADER = 200  # characters; a longer one is an answer without a header
_INVOKE = re.compile(r'<atem:invoke name="([^"\n]*)">\n?(.*?)</atem:invoke>', re.DOTALL)
_PARAMETER = re.compile(r'<atem:parameter name="([^"\n]*)">(.*?)</atem:parameter>\n?', re.DOTALL)


def speaks_muse(tokenizer: Tokenizer, template: str) -> bool:
    tokens = [tokenizer.token_id(name) for name in (_START, _MESSAGE, _EOM, _EOT)]
    return all(token is not None and tokenizer.is_control(token) for token in tokens) and " to=" in template


class MuseReader:
    thinks = True

    def __init__(self, tokenizer: Tokenizer, calls: Calls) -> None:
        self._tokenizer = tokenizer
        self._calls = calls
        self._text = TokenText(tokenizer)
        self._header: list[str] | None = []  # None: inside a body
        self._to = ""
        self._call: OpenCall | None = None
        self.untouched = True
        self.reasoning_tokens = 0

    @property
    def reasoning(self) -> bool:
        return self._header is None and self._to == "self"

    @property
    def answering(self) -> bool:
        return self._header is None and self._to == "user"

    @property
    def calling(self) -> bool:
        return self._call is not None

    @property
    def ends(self) -> Sequence[int]:
        """The control tokens that may follow a call."""
        return [*self._control(_EOM), *self._control(_EOT)]

    def begun(self) -> list[int]:
        return []

    def call_grammar(self) -> Grammar | None:
        if self._call is None or self._call.text or self._calls.tools is None:
            return None
        return self._calls.tools.grammar("muse", self._call.name)

    def closes(self, token: int) -> bool:
        return token in (self._tokenizer.token_id(_EOM), self._tokenizer.token_id(_START))

    def opening(self) -> list[int]:
        return []

    def closing(self, *, again: bool) -> list[int]:
        """With tools, the model chooses at first whom it speaks to; if that is itself again, it must be the user."""
        if self.untouched and self._calls.tools is not None:
            return []  # it has chosen nobody yet
        parts: list[str | int] = []
        if not self.untouched:
            parts += [*self._control(_EOM), *self._control(_START), "assistant"]
        if self._calls.tools is None or again or self.untouched:
            parts += [" to=user", *self._control(_MESSAGE)]
        return self._tokenizer.encode_parts(parts, add_bos=False)

    def push(self, token: int) -> list[Part]:
        self.untouched = False
        text, control = self._text.push(token)
        self.reasoning_tokens += self.reasoning and control is None
        parts = self._more(text) if text else []
        if control == _MESSAGE and self._header is not None:
            parts += self._begin("".join(self._header))
        elif control in (_EOM, _EOT, _START):
            parts += self._end()
        return parts

    def finish(self) -> list[Part]:
        text = self._text.flush()
        parts = self._more(text) if text else []
        return parts + self._end()

    def _control(self, name: str) -> list[int]:
        token = self._tokenizer.token_id(name)
        return [] if token is None else [token]

    def _more(self, text: str) -> list[Part]:
        if self._header is None:
            return self._body(text)
        self._header.append(text)
        header = "".join(self._header)
        if len(header) <= _LONGEST_HEADER:
            return []
        self._header, self._to = None, "user"
        return self._body(header)

    def _begin(self, header: str) -> list[Part]:
        self._header = None
        match = _RECIPIENT.fullmatch(header.removeprefix("assistant"))
        self._to = match.group(1) if match else "user"
        if self._to in ("self", "user"):
            return []
        self._call = self._calls.begin(self._to)
        return [self._call.more()]

    def _body(self, text: str) -> list[Part]:
        if self._to == "self":
            return [ReasoningPart(text=text)]
        if self._call is None:
            return [TextPart(text=text)]
        return [self._call.more(text)]

    def _end(self) -> list[Part]:
        """Of a message; another one may follow."""
        call, self._call = self._call, None
        header, self._header = self._header, []
        if call is not None:
            return list(self._finished(call))
        unread = "" if header is None else "".join(header).removeprefix("assistant")
        if unread and not unread.startswith(" to="[: len(unread)]):
            return [TextPart(text=unread)]  # an answer without a header
        return []

    def _finished(self, call: OpenCall) -> list[Part]:
        invocations = _INVOKE.findall(call.text)
        if not invocations:
            return [call.end(None, problem="there is no <atem:invoke> in the call")]
        parts: list[Part] = []
        for index, (name, body) in enumerate(invocations):
            if index:
                call = self._calls.begin(name or call.name)
                parts.append(call.more(body))
            arguments, problem = self._arguments(call.name, body)
            called = name if self._calls.tools is None else self._calls.tools.known(name)
            if called != call.name:
                problem = f"the call to {call.name!r} invokes {name!r}"
            parts.append(call.end(arguments, problem=problem))
        return parts

    def _arguments(self, tool: str, body: str) -> tuple[dict[str, Any], str | None]:
        arguments: dict[str, Any] = {}
        problem = None
        for name, text in _PARAMETER.findall(body):
            if name in arguments:
                problem = f"the parameter {name!r} comes twice"
            schema = {} if self._calls.tools is None else self._calls.tools.property_schema(tool, name)
            arguments[name] = typed(text, schema)
        if _PARAMETER.sub("", body).strip():
            problem = "there is more in the call than parameters"
        return arguments, problem


def typed(text: str, schema: dict[str, Any]) -> Any:
    """A parameter's value. Strings stand there as they are, everything else as JSON: where the schema allows both,
    it is JSON if it reads as such and is no string."""
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if kinds == ["string"]:
        return text
    try:
        value = json_value(text)
    except ValueError:
        return text
    if isinstance(value, str):  # quotation marks are part of a bare string
        return text
    options = schema.get("enum")
    return text if isinstance(options, list) and text in options and value not in options else value
