"""What grammars need of one model: its vocabulary as the engine has it, the grammars that were compiled for it, and
the threads that compute masks. ``Core`` makes it with the first grammar.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from .._turns import in_turns
from .._workers import Workers
from . import backend
from .constraint import Constraint
from .grammar import Grammar

if TYPE_CHECKING:
    from ..text import Tokenizer
    from .engine import Matcher

MAX_COMPILED = 64
MASK_THREADS = 2  # four slots rarely need a mask at the same moment, and a mask takes microseconds as a rule


class Runtime:
    """Safe to use from any number of threads."""

    def __init__(self, tokenizer: Tokenizer, vocab: int, *, spare_core: bool) -> None:
        """``vocab``: tokens of the model, which may be more than its vocabulary names; those are never allowed.
        ``spare_core``: the processor has one while the device works."""
        pieces = tokenizer.pieces()
        pieces += [b""] * (vocab - len(pieces))
        self.vocab = vocab
        self.spare_core = spare_core
        self.words = vocab // 32 + 1  # one token more than the model's: the end
        self.masks = 0
        self.mask_seconds = 0.0
        self._engine = backend.vocabulary(pieces, tokenizer.control_ids)
        for part in in_turns(len(pieces), 8192):  # 262,144 take some milliseconds to free
            del pieces[-len(part) :]
        self._compiled: OrderedDict[Grammar, Matcher] = OrderedDict()
        self._lock = threading.Lock()
        self._workers = Workers(MASK_THREADS)

    def constraint(self, grammar: Grammar, ends: Iterable[int]) -> Constraint:
        """A new state at the beginning of a text. ``ends``: the tokens that may follow a complete one."""
        return Constraint(self, self._matcher(grammar).copy(), frozenset(ends))

    def submit(self, work: Callable[[], None]) -> Future[None]:
        return self._workers.submit(work)

    def record(self, seconds: float) -> None:
        with self._lock:
            self.masks += 1
            self.mask_seconds += seconds

    def _matcher(self, grammar: Grammar) -> Matcher:
        """The grammar at its beginning, which nobody moves: constraints are copies of it."""
        with self._lock:
            found = self._compiled.get(grammar)
            if found is not None:
                self._compiled.move_to_end(grammar)
                return found
        made = backend.compile_grammar(grammar._lark, self._engine)
        with self._lock:
            self._compiled[grammar] = made
            while len(self._compiled) > MAX_COMPILED:
                self._compiled.popitem(last=False)
        return made
