"""What a chat gives back: the answer, the reasoning before it and the tool calls in it, as one type each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from muser.results import Chunk, Completion


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A finished call of a tool."""

    id: str
    """Different from those of all calls earlier in the conversation."""

    name: str
    arguments: dict[str, Any]
    """Empty where they could not be read, or hold what no message may (1e999); ``problem`` says so then."""

    problem: str | None = None
    """Why the call must not be made as it stands: no such tool, unreadable arguments, or the place where they break
    the tool's schema. None: there is such a tool and the arguments are what its schema asks for."""

    text: str = ""
    """The call as the model wrote it."""


@dataclass(frozen=True, kw_only=True)
class TextPart:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ReasoningPart:
    """A piece of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ToolCallPart:
    """A piece of a tool call. The first one comes as soon as the name is known, the last one has the ``call``."""

    index: int
    """Which call of this answer, from 0."""

    id: str
    name: str
    text: str = ""
    """A piece of the arguments, as the model writes them."""

    call: ToolCall | None = None
    """The call, when it is complete."""


Part: TypeAlias = TextPart | ReasoningPart | ToolCallPart


@dataclass(frozen=True, kw_only=True)
class ChatChunk(Chunk):
    """A piece of a streamed answer. ``text`` is the answer's alone; ``tokens`` are all that were generated."""

    parts: tuple[Part, ...] = ()
    """In the order in which the model wrote them."""

    @property
    def reasoning(self) -> str:
        """The reasoning in this chunk."""
        return "".join(part.text for part in self.parts if isinstance(part, ReasoningPart))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that this chunk completes."""
        return tuple(part.call for part in self.parts if isinstance(part, ToolCallPart) and part.call is not None)


@dataclass(frozen=True, kw_only=True)
class ChatCompletion(Completion):
    """A finished answer. ``text`` is the answer's alone; ``tokens`` are all that were generated."""

    reasoning: str = ""
    """What the model thought before it answered."""

    tool_calls: tuple[ToolCall, ...] = ()
    """The calls that it asks for."""

    reasoning_tokens: int = 0
    """How many of the tokens are reasoning."""

    @property
    def message(self) -> dict[str, Any]:
        """The answer as a message, to be appended to the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self.tool_calls
            ]
        return message
