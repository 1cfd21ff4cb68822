"""Which grammar holds where: the caller's in the answer, a tool's in its call, none in reasoning and headers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from .._core import Core
from ..errors import ParameterError
from ..grammar import Grammar
from ..grammar.guide import Guide
from .reader import Reader
from .thinking import ThinkingBudget

if TYPE_CHECKING:
    from ..grammar.constraint import Constraint


class Grammars:
    """Of one generation. Takes the caller's grammar from ``guide``, and gives it one constraint at a time."""

    def __init__(
        self, core: Core, guide: Guide, reader: Reader, thinking: ThinkingBudget | None, ends: AbstractSet[int]
    ) -> None:
        self._core = core
        self._guide = guide
        self._reader = reader
        self._thinking = thinking
        self._ends = ends
        self._answer = guide.constraint
        self._call: Constraint | None = None
        self._call_grammar: Grammar | None = None
        self._free = False  # this call is not bound

    def update(self) -> None:
        """Between two tokens, when the reader has read the last one."""
        reader = self._reader
        if not reader.calling:
            self._call, self._free = None, False
        elif self._call is None and not self._free and (grammar := reader.call_grammar()) is not None:
            try:
                self._bind(grammar, reader.begun())
            except ParameterError:  # it has begun in a way of its own: the check of the finished call remains
                self._call, self._free = None, True
        self._place()

    def _bind(self, grammar: Grammar, begun: Iterable[int]) -> None:
        ends = frozenset(self._ends) | frozenset(self._reader.ends)
        self._call, self._call_grammar = self._core.grammars.constraint(grammar, ends), grammar
        self._call.replay(begun)

    def _place(self) -> None:
        if self._thinking is not None and self._thinking.forcing:
            self._guide.constraint = None
        else:
            self._guide.constraint = self._answer if self._reader.answering else self._call

    def state(self) -> dict[str, Any]:
        """For a file. A constraint is what it consumed; whether the last token was sampled under the present one, and is
        still to be consumed by it, only the guide knows."""
        call, grammar = self._call, self._call_grammar
        return {
            "answer": None if self._answer is None else self._answer.tokens,
            "call": None if call is None or grammar is None else [grammar._kind, grammar._lark, call.tokens],
            "free": self._free,
            "sampled": self._guide.is_sampled,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """When the reader has read all tokens until then. ParameterError where they do not fit."""
        if self._answer is not None:
            self._answer.replay(state["answer"])
        self._free = bool(state["free"])
        if state["call"] is not None:
            kind, text, tokens = state["call"]
            self._bind(Grammar._made(str(kind), str(text)), tokens)
        self._place()
        if state["sampled"]:
            self._guide.sampled()
