"""A generation that answers in a chat: the ordinary loop with a transcript that knows reasoning, answer and calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from .. import _checks as checks
from .._core import Core
from ..generation import Generation
from ..params import SamplingParams
from ..results import FinishReason, TokenLogprob
from ..transcript import Transcript
from .grammars import Grammars
from .parts import ChatChunk, ChatCompletion, Part, ReasoningPart, TextPart, ToolCall, ToolCallPart
from .protocol import Way, make_reader
from .reader import Calls, Reader
from .thinking import ThinkingBudget
from .tools import Tools

if TYPE_CHECKING:
    from ..text import Tokenizer


class ChatGeneration(Generation):
    """``budget``: tokens of reasoning, None: no limit. ``calls``: its own."""

    _saved: Mapping[str, Any] | None = None  # until it is resumed

    def __init__(
        self,
        core: Core,
        ids: list[int] | NDArray[np.int32],
        params: SamplingParams,
        way: Way,
        calls: Calls,
        budget: int | None,
        keep_turns: int = 0,
    ) -> None:
        self.keep_turns = keep_turns
        self._way, self._calls, self._budget = way, calls, budget
        reader = make_reader(core.tokenizer, way, calls)
        self._chat = ChatTranscript(core.tokenizer, params, reader)
        super().__init__(core, np.array(ids, np.int32), params, self._chat)
        self._thinking: ThinkingBudget | None = None
        if budget is not None or params.grammar is not None:
            self._thinking = ThinkingBudget(budget, reader, first=params.grammar is not None)
            self.choose = self._thinking.choose
        self._grammars = self._chat.grammars = Grammars(core, self.guide, reader, self._thinking, self._end_tokens)
        self._grammars.update()

    @property
    def _is_unguided(self) -> bool:
        return super()._is_unguided and self._thinking is None and self._calls.tools is None

    def state(self) -> dict[str, Any]:
        tools = self._calls.tools
        return {
            "way": dataclasses.asdict(self._way),
            "tools": None if tools is None else tools.listed,
            "calls_before": self._calls.first,
            "budget": self._budget,
            "keep_turns": self.keep_turns,
            "thinking": None if self._thinking is None else self._thinking.state(),
            "grammars": self._grammars.state(),
        }

    @classmethod
    def restored(cls, core: Core, ids: NDArray[np.int32], params: SamplingParams, state: Mapping[str, Any]) -> Self:
        """To be resumed. Raises ParameterError, KeyError, TypeError or ValueError for what is no :meth:`state`."""
        calls = Calls(None if state["tools"] is None else Tools(state["tools"]), int(state["calls_before"]))
        budget = None if state["budget"] is None else int(state["budget"])
        self = cls(core, ids, params, Way(**state["way"]), calls, budget, int(state["keep_turns"]))
        self._saved = state
        self._chat.grammars = None  # which grammar held where is in the state
        return self

    def _resume_grammar(self) -> None:
        state, self._saved = self._saved, None
        assert state is not None
        if self._thinking is not None:
            self._thinking.restore(state["thinking"])
            checks.token_array("tokens", state["thinking"]["forced"], self.core.vocab)
        self._grammars.restore(state["grammars"])
        self._chat.grammars = self._grammars

    def result(self) -> ChatCompletion:
        done = super().result()
        fields = {field.name: getattr(done, field.name) for field in dataclasses.fields(done)}
        fields["finish_reason"] = self._chat.reason(done.finish_reason)
        return ChatCompletion(
            **fields,
            reasoning="".join(self._chat.reasoning),
            tool_calls=tuple(self._chat.tool_calls),
            reasoning_tokens=self._chat.reader.reasoning_tokens,
        )


class ChatTranscript(Transcript):
    """Stop strings are looked for in the answer, not in the reasoning before it and not in the calls."""

    def __init__(self, tokenizer: Tokenizer, params: SamplingParams, reader: Reader) -> None:
        super().__init__(tokenizer, params)
        self.reader = reader
        self.reasoning: list[str] = []
        self.tool_calls: list[ToolCall] = []
        self._parts: list[Part] = []  # undelivered
        self.grammars: Grammars | None = None

    def reason(self, reason: FinishReason) -> FinishReason:
        """An answer that ends with calls ends for their sake."""
        return "tool_calls" if reason == "eos" and self.tool_calls else reason

    def echo(self, tokens: Sequence[int], logprobs: Iterable[TokenLogprob]) -> None:
        raise AssertionError("a chat has no echo")

    def add(self, token: int, logprob: TokenLogprob | None = None) -> ChatChunk | None:
        self.tokens.append(token)
        self._undelivered.append(token)
        if logprob is not None:
            self.logprobs.append(logprob)
        self._take(self.reader.push(token), searched=len(self.tokens) > self._unsearched)
        if self.grammars is not None:
            self.grammars.update()
        return self._chunk(None) if self._parts and self.stop_string is None else None

    def end(self, reason: FinishReason) -> ChatChunk:
        if self.stop_string is None:
            self._take(self.reader.finish(), searched=True)
        if self._stops is not None and self._stops.found is None and (held := self._stops.flush()):
            self._parts.append(TextPart(text=held))
        return self._chunk(self.reason(reason))

    def _take(self, parts: list[Part], *, searched: bool) -> None:
        for part in parts:
            if isinstance(part, TextPart) and self._stops is not None and searched:
                text = self._stops.push(part.text)
                if text:
                    self._parts.append(TextPart(text=text))
                if self._stops.found is not None:
                    return
                continue
            self._parts.append(part)
            if isinstance(part, ReasoningPart):
                self.reasoning.append(part.text)
            elif isinstance(part, ToolCallPart) and part.call is not None:
                self.tool_calls.append(part.call)

    def _chunk(self, reason: FinishReason | None) -> ChatChunk:
        parts, self._parts = tuple(self._parts), []
        self._ready = "".join(part.text for part in parts if isinstance(part, TextPart))
        plain = super()._chunk(reason)
        return ChatChunk(
            text=plain.text, tokens=plain.tokens, logprobs=plain.logprobs, finish_reason=plain.finish_reason, parts=parts
        )
