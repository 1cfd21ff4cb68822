"""The state of a grammar in one generation: what has been written, and what may come next.

One thread at a time. The state is a function of the tokens since its start, so that a session file needs only them:
:meth:`Constraint.replay` restores it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .. import _checks as checks
from ..errors import MuserError, ParameterError
from .backend import stuck

if TYPE_CHECKING:
    from .engine import Matcher
    from .runtime import Runtime

Mask = NDArray[np.uint32]

# Less than a decode waits for its neighbours, and about what handing work to a thread and back costs.
QUICK_SECONDS = 200e-6


class Constraint:
    """From :meth:`Runtime.constraint`. The loop: :meth:`begin` or not, :meth:`mask`, sample, :meth:`consume`.

    It may be started in the middle of a generation (tool calls): it knows only the tokens that it consumed.
    ``ends`` are allowed where the grammar can end, besides what the grammar allows there; no other control token is
    ever allowed.
    """

    def __init__(self, runtime: Runtime, matcher: Matcher, ends: frozenset[int]) -> None:
        self._runtime = runtime
        self._matcher = matcher
        self._ends = ends
        self._bits = _bits(ends, runtime.words)
        self._words = np.zeros(runtime.words, np.uint32)
        self._mask = self._words[: -(-runtime.vocab // 32)]
        self._pending: Future[None] | None = None
        self._known = False  # whether the words are those of the present state
        self._last_seconds = float("inf")
        self._complete = False
        self._only_ends = False
        self.tokens: list[int] = []
        """Consumed since the start."""
        self.masks = 0
        """Masks that were computed, and in :attr:`mask_seconds` how long that took, on whatever thread."""
        self.mask_seconds = 0.0
        self.wait_seconds = 0.0
        """What :meth:`mask` made its callers wait."""

    def begin(self) -> bool:
        """Before the device gets to work: starts on the next mask, and says whether it is there already.

        It is computed at once if the last one was quick, or else in another thread while the device works. Not on a
        processor that the device keeps busy as a whole: there a second thread takes more from the pass than it
        gains (SmolLM2 on 2 cores: 0.45 of the speed instead of 0.63). Raises as :meth:`mask`.
        """
        if self._pending is not None:
            return False
        if not self._known:
            if self._runtime.spare_core and self._last_seconds > QUICK_SECONDS:
                self._pending = self._runtime.submit(self._compute)
                return False
            self._compute()
        return True

    def mask(self) -> Mask:
        """The tokens that may come next: uint32 ``[ceil(vocab / 32)]``, bit ``i % 32`` of word ``i // 32`` for token i.

        The array changes with the next mask. It is all zero only where the text is complete and ``ends`` is empty.

        Raises:
            GrammarDeadEndError: nothing may, and the text is not complete.
            GrammarLimitError: the grammar needs too much work here.
        """
        start = time.perf_counter()
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()
        elif not self._known:
            self._compute()
        self.wait_seconds += time.perf_counter() - start
        return self._mask

    @property
    def complete(self) -> bool:
        """Whether the text so far is one of the grammar. Computes the mask if need be."""
        self.mask()
        return self._complete

    @property
    def only_ends(self) -> bool:
        """Whether it is, and nothing can follow. Computes the mask if need be."""
        self.mask()
        return self._only_ends

    def consume(self, token: int) -> None:
        """Appends a token; one of ``ends`` leaves the state as it is.

        Raises ParameterError if it is not allowed here (and has changed nothing), GrammarLimitError as :meth:`mask`.
        """
        self._settle()
        number = checks.integer("token", token, 0, self._runtime.vocab - 1)
        if number not in self._ends or not self._matcher.accepting:
            allowed = self._known and bool(self._words[number // 32] >> np.uint32(number % 32) & np.uint32(1))
            taken = self._matcher.consume(number, allowed=allowed)
            error = self._matcher.error
            if error is not None:
                raise stuck(error)
            if not taken:
                raise ParameterError("token is not allowed by the grammar here", parameter="token", value=token)
            self._known = False
            self.tokens.append(number)

    def accepts(self, tokens: Iterable[int]) -> int:
        """How many of these tokens could be consumed, one after another. Changes nothing."""
        self._settle()
        return self._matcher.valid(checks.token_array("tokens", tokens, self._runtime.vocab).tolist())

    def rollback(self, count: int) -> None:
        """Takes back the last ``count`` tokens, as speculation does. ParameterError if there are not so many."""
        number = checks.integer("count", count, 0, len(self.tokens))
        self._settle()
        if number and not self._matcher.rollback(number):
            raise MuserError("the grammar cannot go back")
        if number:
            del self.tokens[-number:]
            self._known = False

    def fork(self) -> Constraint:
        """A copy with a life of its own. Costs microseconds."""
        self._settle()
        copy = Constraint(self._runtime, self._matcher.copy(), self._ends)
        copy.tokens = list(self.tokens)
        copy._last_seconds = self._last_seconds
        return copy

    def replay(self, tokens: Iterable[int]) -> None:
        """Consumes all of them: the state of a session file. ParameterError names the first that does not fit."""
        for index, token in enumerate(checks.token_array("tokens", tokens, self._runtime.vocab).tolist()):
            try:
                self.consume(token)
            except ParameterError:
                raise checks.refuse("tokens", "must be allowed by the grammar", token, index) from None

    def _settle(self) -> None:
        """The engine is one thread's at a time."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.exception()

    def _compute(self) -> None:
        start = time.perf_counter()
        words = self._words
        self._matcher.mask_into(words)
        error = self._matcher.error
        if error is not None:
            raise stuck(error)
        vocab = self._runtime.vocab
        end = np.uint32(1 << vocab % 32)
        self._complete = bool(words[vocab // 32] & end)
        words[vocab // 32] &= ~end
        self._only_ends = self._complete and not words.any()
        if self._complete:
            words |= self._bits
        self._known = True
        seconds = self._last_seconds = time.perf_counter() - start
        self.masks += 1
        self.mask_seconds += seconds
        self._runtime.record(seconds)


def _bits(tokens: Iterable[int], words: int) -> Mask:
    bits = np.zeros(words, np.uint32)
    for token in tokens:
        bits[token // 32] |= np.uint32(1 << token % 32)
    return bits
