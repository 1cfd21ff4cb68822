"""Which grammar holds where: the caller's in the answer, a tool's in its call, none in reasoning and headers."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from .._core import Core
from ..errors import ParameterError
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
        self._free = False  # this call is not bound

    def update(self) -> None:
        """Between two tokens, when the reader has read the last one."""
        reader = self._reader
        if not reader.calling:
            self._call, self._free = None, False
        elif self._call is None and not self._free and (grammar := reader.call_grammar()) is not None:
            self._call = self._core.grammars.constraint(grammar, frozenset(self._ends) | frozenset(reader.ends))
            try:
                self._call.replay(reader.begun())
            except ParameterError:  # it has begun in a way of its own: the check of the finished call remains
                self._call, self._free = None, True
        if self._thinking is not None and self._thinking.forcing:
            self._guide.constraint = None
        else:
            self._guide.constraint = self._answer if reader.answering else self._call
