"""Llama 3's answers: a tool call is an answer that is nothing but ``{"name": ..., "parameters": {...}}``, several of
them with ``;`` in between, or what follows ``<|python_tag|>``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .parts import Part, TextPart
from .reader import Calls, OpenCall, TokenText
from .tags import call_arguments, name_in

if TYPE_CHECKING:
    from ..grammar import Grammar
    from ..text import Tokenizer

_TAG = "<|python_tag|>"
_BEGINNINGS = ('{"name":"', '{"type":"function","name":"')
_BETWEEN = re.compile(r"[\s;]*")


class LlamaReader:
    thinks = False
    ends: Sequence[int] = ()
    reasoning = False
    reasoning_tokens = 0

    def __init__(self, tokenizer: Tokenizer, calls: Calls) -> None:
        self._calls = calls
        self._text = TokenText(tokenizer)
        self._state = "text" if calls.tools is None else "start"
        self._held = ""
        self._call: OpenCall | None = None
        self._tokens: list[int] = []  # until it is known whether they are a call's
        self.untouched = True

    @property
    def answering(self) -> bool:
        return self._state != "call"

    @property
    def calling(self) -> bool:
        return self._state == "call"

    def call_grammar(self) -> Grammar | None:
        if self._state != "call" or self._calls.tools is None:
            return None
        return self._calls.tools.grammar("llama", "")

    def begun(self) -> list[int]:
        return self._tokens

    def closes(self, token: int) -> bool:
        return False

    def opening(self) -> list[int]:
        return []

    def closing(self, *, again: bool) -> list[int]:
        return []

    def push(self, token: int) -> list[Part]:
        self.untouched = False
        if self._state == "start":
            self._tokens.append(token)
        text, control = self._text.push(token)
        parts = self._more(text)
        if control == _TAG and self._state != "call" and self._calls.tools is not None:
            parts += self._text_part(self._held)
            self._state, self._held, self._tokens = "call", "", []
        return parts

    def finish(self) -> list[Part]:
        parts = self._more(self._text.flush())
        held, self._held = self._held, ""
        return parts + (self._called(held) if self._state == "call" else self._text_part(held))

    def _more(self, text: str) -> list[Part]:
        self._held += text
        if self._state == "start" and self._held:
            compact = re.sub(r"\s", "", self._held)
            if any(compact.startswith(beginning) for beginning in _BEGINNINGS):
                self._state = "call"
            elif not any(beginning.startswith(compact) for beginning in _BEGINNINGS):
                self._state = "text"
        if self._state == "text":
            held, self._held = self._held, ""
            return self._text_part(held)
        if self._state == "call" and self._call is None:
            name = name_in(self._held)
            if not name:
                return []
            self._call = self._calls.begin(name)
            return [self._call.more(self._held)]
        if self._call is not None and text:
            return [self._call.more(text)]
        return []

    def _called(self, text: str) -> list[Part]:
        """All that was held, from the first call on."""
        if self._call is None:
            return self._text_part(text)  # a program, or a call that has no name yet
        calls = _objects(text)
        parts: list[Part] = [self._call.end(call_arguments(calls[0]))]
        for body in calls[1:]:
            name = name_in(body)
            if not name:
                parts += self._text_part(body)
                continue
            call = self._calls.begin(name)
            parts += [call.more(), call.end(call_arguments(body), body)]
        return parts

    def _text_part(self, text: str) -> list[Part]:
        return [TextPart(text=text)] if text else []


def _objects(text: str) -> list[str]:
    """The JSON values in a row; where one cannot be read, the rest is the last one."""
    found: list[str] = []
    decoder = json.JSONDecoder()
    start = _BETWEEN.match(text).end()  # type: ignore[union-attr]
    while start < len(text):
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = len(text)
        found.append(text[start:end])
        start = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]
    return found or [text]
