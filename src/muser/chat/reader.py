"""The first step of reading an answer: tokens become text and control tokens, and calls of tools get their numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import ParameterError
from ..text import Detokenizer, Tokenizer
from .messages import plain
from .parts import Part, ToolCall, ToolCallPart
from .tools import Tools

if TYPE_CHECKING:
    from ..grammar import Grammar


_DEPTH_IN_MESSAGE = 4  # of a call's argument: messages[i].tool_calls[j].function.arguments.name


class Reader(Protocol):
    """Reads one answer, token by token. One class for each way in which a family of models marks what it writes. Its
    state is a function of the tokens, so that a file needs only them."""

    thinks: bool
    """Whether there can be reasoning at all."""

    untouched: bool
    """Nothing has been read yet."""

    reasoning_tokens: int
    """How many tokens were reasoning."""

    @property
    def reasoning(self) -> bool:
        """Whether the next token is reasoning, or ends it."""

    @property
    def answering(self) -> bool:
        """Whether the next token is text of the answer."""

    def call_grammar(self) -> Grammar | None:
        """What a tool call must look like, at its beginning; the tokens that :meth:`begun` gives are there already."""

    def begun(self) -> list[int]:
        """The tokens of the call that were read before it was known to be one."""

    @property
    def ends(self) -> Sequence[int]:
        """Control tokens that may follow a call, besides those that end the answer."""

    @property
    def calling(self) -> bool:
        """Whether the next token belongs to a tool call."""

    def push(self, token: int) -> list[Part]:
        """What the token completes."""

    def finish(self) -> list[Part]:
        """The answer is over: what was held back."""

    def closes(self, token: int) -> bool:
        """Whether the token ends the reasoning."""

    def opening(self) -> list[int]:
        """The tokens that begin the reasoning, where the model may leave it out by beginning its answer."""

    def closing(self, *, again: bool) -> list[int]:
        """The tokens that end the reasoning here, or leave it out, and begin the answer. None: first the model
        must choose what it begins. ``again``: they ended a reasoning of this answer before."""


class TokenText:
    """Text as it becomes whole, and the names of control tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._detokenizer = Detokenizer(tokenizer)

    def push(self, token: int) -> tuple[str, str | None]:
        """The text that is whole now, and the control token after it."""
        if self._tokenizer.is_control(token):
            return self._detokenizer.flush(), self._tokenizer.token_text(token)
        return self._detokenizer.push(token), None

    def flush(self) -> str:
        return self._detokenizer.flush()

    @property
    def pending(self) -> bytes:
        """The beginning of a character that is not whole yet."""
        return self._detokenizer.pending


class Calls:
    """The tool calls of one answer. ``first``: how many there were in the conversation before."""

    def __init__(self, tools: Tools | None, first: int = 0) -> None:
        self.tools = tools
        self.first = first
        self._count = 0

    def begin(self, name: str) -> OpenCall:
        known = name if self.tools is None else self.tools.known(name)
        call = OpenCall(self, self._count, f"call_{self.first + self._count}", known)
        self._count += 1
        return call


class OpenCall:
    """A call that is being written."""

    def __init__(self, calls: Calls, index: int, id: str, name: str) -> None:
        self._calls = calls
        self.index, self.id, self.name = index, id, name
        self._text: list[str] = []

    @property
    def text(self) -> str:
        """All of it until now."""
        return "".join(self._text)

    def more(self, text: str = "") -> ToolCallPart:
        self._text.append(text)
        return ToolCallPart(index=self.index, id=self.id, name=self.name, text=text)

    def end(self, arguments: dict[str, Any] | None, text: str = "", problem: str | None = None) -> ToolCallPart:
        """``arguments`` None: they cannot be read. ``text``: the last piece."""
        self._text.append(text)
        tools = self._calls.tools
        if arguments is None:
            problem = problem or "the arguments cannot be read"
        elif problem is None:
            problem = "no tools were given" if tools is None else tools.problem(self.name, arguments)
        call = ToolCall(id=self.id, name=self.name, arguments=arguments or {}, problem=problem, text=self.text)
        return ToolCallPart(index=self.index, id=self.id, name=self.name, text=text, call=call)


def json_value(text: str) -> Any:
    """The JSON in ``text``; ValueError for anything else. What a message may not hold, and so the next turn would refuse,
    is anything else: NaN and infinities (1e999 is one), halves of surrogate pairs, values nested too deeply."""
    try:
        return plain("messages", None, "arguments", json.loads(text), _DEPTH_IN_MESSAGE)
    except (ParameterError, RecursionError) as error:
        raise ValueError(str(error)) from None
