"""Answers with tags in their text: ``<think>...</think>`` in front (Qwen 3, DeepSeek) and tool calls as JSON in
``<tool_call>...</tool_call>`` (Hermes, Qwen). A tag may be one token, several, or a control token.
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

_THINK, _THOUGHT = "<think>", "</think>"
_CALL, _CALLED = "<tool_call>", "</tool_call>"
_TAGS = (_THINK, _THOUGHT, _CALL, _CALLED)
_NAME = re.compile(r'\s*\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"name"\s*:\s*("(?:[^"\\]|\\.)*")')


class TagReader:
    """``thinks``: the answer may begin with reasoning. ``thinking``: the prompt has opened it already."""

    ends: Sequence[int] = ()

    def __init__(self, tokenizer: Tokenizer, calls: Calls, *, thinks: bool, thinking: bool) -> None:
        self._tokenizer = tokenizer
        self._calls = calls
        self._text = TokenText(tokenizer)
        self._state = "reasoning" if thinking else "start" if thinks else "answer"
        self._held = ""
        self._at_start = thinking  # of reasoning or answer, where line feeds are the protocol's
        self._call: OpenCall | None = None
        self._blank = ""  # in front of the call's tag
        self.thinks = thinks or thinking
        self.untouched = True
        self.reasoning_tokens = 0

    @property
    def reasoning(self) -> bool:
        return self._state == "reasoning"

    @property
    def answering(self) -> bool:
        return self._state == "answer"

    @property
    def calling(self) -> bool:
        return self._state == "call"

    def begun(self) -> list[int]:
        """What stands after the tag in the token that completed it, in tokens of its own."""
        return self._tokenizer.encode_parts([self._held], add_bos=False) if self._held else []

    def call_grammar(self) -> Grammar | None:
        if self._state != "call" or self._call is not None or self._calls.tools is None or self._text.pending:
            return None
        if b"".join(map(self._tokenizer.token_bytes, self.begun())) != self._held.encode():
            return None  # an encoder that puts a space in front
        return self._calls.tools.grammar("tags", "")

    def opening(self) -> list[int]:
        if self._state != "start":
            return []
        return self._tokenizer.encode(f"{_THINK}\n", add_bos=False, parse_special=True)

    def closes(self, token: int) -> bool:
        return self._tokenizer.token_text(token) == _THOUGHT

    def closing(self, *, again: bool) -> list[int]:
        text = f"{_THINK}\n\n{_THOUGHT}\n\n" if self._state == "start" else f"\n{_THOUGHT}\n\n"
        return self._tokenizer.encode(text, add_bos=False, parse_special=True)

    def push(self, token: int) -> list[Part]:
        self.untouched = False
        self.reasoning_tokens += self._state == "reasoning" and not self.closes(token)
        text, control = self._text.push(token)
        if control in _TAGS:
            text += control
        self._held += text
        return self._read() if text else []

    def finish(self) -> list[Part]:
        self._held += self._text.flush()
        parts = self._read()
        held, self._held = self._held, ""
        if self._state == "reasoning":
            return parts + ([ReasoningPart(text=held)] if held else [])
        if self._state == "call":
            return parts + self._called(held)
        return parts + ([TextPart(text=held)] if held else [])

    def _read(self) -> list[Part]:
        parts: list[Part] = []
        state = ""
        while state != self._state:
            state = self._state
            parts += getattr(self, f"_in_{state}")()
        return parts

    def _in_start(self) -> list[Part]:
        begun = self._held.lstrip()
        if begun.startswith(_THINK):
            self._state, self._held, self._at_start = "reasoning", begun[len(_THINK) :], True
        elif not _THINK.startswith(begun):
            self._state = "answer"
        return []

    def _in_reasoning(self) -> list[Part]:
        text, found = self._until(_THOUGHT, "\n")
        if found:
            self._state, self._at_start = "answer", True
        return [ReasoningPart(text=text)] if text else []

    def _in_answer(self) -> list[Part]:
        if self._calls.tools is None:
            text, self._held = self._held, ""
            text = self._trimmed(text)
            return [TextPart(text=text)] if text else []
        text, found = self._until(_CALL, None)
        if found:
            self._state = "call"
        return [TextPart(text=text)] if text else []

    def _in_call(self) -> list[Part]:
        place = self._held.find(_CALLED)
        if place >= 0:
            body, self._held = self._held[:place], self._held[place + len(_CALLED) :]
            self._state = "answer"
            return self._called(body, _CALLED)
        if self._call is None:
            name = name_in(self._held)
            if not name:
                return []
            self._call = self._calls.begin(name)
        ready = len(self._held) - _overlap(self._held, _CALLED)
        text, self._held = self._held[:ready], self._held[ready:]
        return [self._call.more(text)]

    def _called(self, rest: str, tag: str = "") -> list[Part]:
        """The end of a call, with its last piece. What has no name is no call, but text with its tags."""
        call, self._call = self._call, None
        if call is None:
            name = name_in(rest)
            if not name:
                return [TextPart(text=f"{self._blank}{_CALL}{rest}{tag}")]
            call = self._calls.begin(name)
        return [call.end(call_arguments(call.text + rest), rest)]

    def _until(self, tag: str, blank: str | None) -> tuple[str, bool]:
        """The text up to the tag, or up to what may become one. ``blank`` (None: all white space) in front of the
        tag belongs to it."""
        place = self._held.find(tag)
        end = len(self._held) - _overlap(self._held, tag) if place < 0 else place
        text = self._trimmed(self._held[:end])
        solid = text.rstrip(blank)
        if place >= 0:
            self._held, self._blank = self._held[place + len(tag) :], text[len(solid) :]
            return solid, True
        self._held = text[len(solid) :] + self._held[end:]
        return solid, False

    def _trimmed(self, text: str) -> str:
        if self._at_start:
            text = text.lstrip("\n")
            self._at_start = not text
        return text


def name_in(text: str) -> str:
    """The name at the beginning of a call; empty where there is none that can be read (yet)."""
    match = _NAME.match(text)
    try:
        return "" if match is None else str(json_value(match.group(1)))
    except ValueError:
        return ""


def call_arguments(text: str) -> dict[str, Any] | None:
    """The arguments in a call as JSON, under one of the names that models use; None if they cannot be read."""
    try:
        call = json_value(text)
        found = call.get("arguments", call.get("parameters", {})) if isinstance(call, dict) else None
        if isinstance(found, str):
            found = json_value(found)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of ``text`` are a beginning of ``tag``, but not all of it."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:length]):
            return length
    return 0
