"""What a model's parts share: the native engine behind its checks, the lazy tokenizer, and the rule that turns
a prompt into ids. Model, Session and the generation loop hold one Core; nobody else sees the engine.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from muser import _checks as checks
from muser._native import NativeEngine
from muser.errors import ClosedError, ContextFullError, ForkedError, ParameterError

logger = logging.getLogger("muser")
logger.addHandler(logging.NullHandler())  # a library prints nothing unless its host asks for it

Prompt: TypeAlias = str | Iterable[int] | NDArray[np.integer]
"""Text, token ids, or a 1-D integer array of token ids."""


if TYPE_CHECKING:
    from muser.grammar.runtime import Runtime
    from muser.text import Tokenizer


def closed_error() -> ClosedError:
    return ClosedError("the model is closed")


class Core:
    def __init__(
        self,
        native: NativeEngine,
        make_tokenizer: Callable[[], Tokenizer],
        file_identity: Mapping[str, Any] | None = None,
        *,
        shifts: bool = False,
    ) -> None:
        """``file_identity``: what tells this model from others (saving/identity.py). ``shifts``: a full context drops its
        oldest tokens instead of raising."""
        self.shifts = shifts
        self._native: NativeEngine | None = native
        self._pid = os.getpid()
        self._closed = False
        self._make_tokenizer: Callable[[], Tokenizer] | None = make_tokenizer
        self._tokenizer: Tokenizer | None = None
        self._tokenizer_lock = threading.Lock()
        self._grammars: Runtime | None = None
        self._grammars_lock = threading.Lock()
        self.file_identity = dict(file_identity or {})
        self.identity: dict[str, Any] | None = None
        self.context = native.context
        self.vocab = native.vocab
        self.slots = native.slots

    def engine(self) -> NativeEngine:
        """The engine, for one call. Checked each time: a fork or a close may have come in between."""
        self.check_process()
        native = self._native
        if self._closed or native is None:
            raise closed_error()
        return native

    def check_process(self) -> None:
        """Before any lock is touched: in a forked child a lock may be held by a thread that does not exist."""
        if os.getpid() != self._pid:
            raise ForkedError(
                f"the model was loaded in process {self._pid} and cannot be used in its forked child {os.getpid()}; "
                "load it in the child, or start the child with the 'spawn' method",
                pid=self._pid,
            )

    @property
    def in_this_process(self) -> bool:
        return os.getpid() == self._pid

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> NativeEngine | None:
        """No call begins after this. Returns the engine to close, before :meth:`drop`."""
        self._closed = True
        return self._native

    def drop(self) -> None:
        """Lets go of all memory, although sessions and results of the host may keep this object."""
        self._native = self._make_tokenizer = self._tokenizer = self._grammars = None

    @property
    def tokenizer(self) -> Tokenizer:
        """Built at first use: a host that works with ids never pays for it."""
        self.engine()
        tokenizer = self._tokenizer
        if tokenizer is None:
            with self._tokenizer_lock:
                tokenizer, make = self._tokenizer, self._make_tokenizer
                if tokenizer is None:
                    if make is None:
                        raise closed_error()
                    tokenizer = self._tokenizer = make()
                    self._make_tokenizer = None  # and with it the open file
            if self._closed:  # meanwhile
                self._tokenizer = None
        return tokenizer

    @property
    def grammars(self) -> Runtime:
        """Built with the first grammar: it takes a tenth of a second to a second, by the size of the vocabulary."""
        tokenizer = self.tokenizer
        grammars = self._grammars
        if grammars is None:
            from muser.grammar.runtime import Runtime  # with the engine behind it: not at import
            from muser.system import usable_cores

            with self._grammars_lock:
                grammars = self._grammars
                if grammars is None:
                    grammars = self._grammars = Runtime(tokenizer, self.vocab, spare_core=self.engine().host_threads < usable_cores())
            if self._closed:  # meanwhile
                self._grammars = None
        return grammars

    def grammar_stats(self) -> dict[str, Any]:
        """What all masks since the load took, in seconds of whatever threads."""
        grammars = self._grammars
        return {
            "grammar_masks": 0 if grammars is None else grammars.masks,
            "grammar_mask_seconds": 0.0 if grammars is None else grammars.mask_seconds,
        }

    def encode(self, prompt: Prompt, *, add_bos: bool | None = None, parameter: str = "prompt") -> NDArray[np.int32]:
        """Ids of a prompt, which the caller calls ``parameter``. Text is never parsed for control tokens; ``add_bos=None``: as the file says.

        Raises ParameterError: another type, an id outside the vocabulary, or nothing at all.
        """
        if isinstance(prompt, str):
            try:
                ids: Prompt = self.tokenizer.encode(prompt, add_bos=add_bos, parse_special=False)
            except ParameterError as error:  # the tokenizer calls it "text", its caller something else
                raise ParameterError(f"{parameter}: {error}", parameter=parameter, value=error.value, index=error.index) from None
        else:
            ids = prompt
        array = checks.token_array(parameter, ids, self.vocab, text=True)
        if array.size == 0:
            raise ParameterError(f"{parameter} must hold at least one token", parameter=parameter, value=prompt)
        return array

    def too_long(self, ids: NDArray[np.int32]) -> ContextFullError:
        return ContextFullError(
            f"the prompt has {ids.size} tokens, and a context of {self.context} rows takes a prompt of at most "
            f"{self.context - 1} and one token after it",
            position=int(ids.size),
            capacity=self.context,
        )
