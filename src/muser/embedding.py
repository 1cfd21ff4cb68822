"""Texts to vectors: ``Model.embed``. Each text runs through a slot of its own turn, so that generations go on beside it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from muser import _checks as checks
from muser._core import Core, Prompt
from muser.errors import ContextFullError, ParameterError
from muser.session import Session

POOLINGS = ("mean", "last", "cls")


class Embedder:
    """One call of ``embed``. Everything is checked and tokenized here, before anything runs."""

    def __init__(self, core: Core, texts: Iterable[Prompt], pooling: str, normalize: bool) -> None:
        if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
            raise checks.refuse("texts", "must be an iterable of texts (for one text: [text])", texts)
        self._core = core
        self._pooling = checks.choice("pooling", pooling, POOLINGS)
        self._normalize = checks.boolean("normalize", normalize)
        self.prompts = [_encoded(core, index, text) for index, text in enumerate(texts)]
        for index, ids in enumerate(self.prompts):
            if ids.size > core.context:
                raise ContextFullError(
                    f"texts[{index}] has {ids.size} tokens, and a context has {core.context} rows",
                    position=int(ids.size),
                    capacity=core.context,
                )
        self.rows: NDArray[np.float32] = np.empty((len(self.prompts), core.engine().width), np.float32)

    def embed(self, index: int, session: Session) -> None:
        """Fills that row, and ends the session."""
        try:
            with session._drive as engine:
                row = engine.embed(session.slot, self.prompts[index], self._pooling, None).astype(np.float64)
        finally:
            session._end()
        length = float(np.sqrt(row @ row))
        self.rows[index] = row / length if self._normalize and length > 0 else row


def _encoded(core: Core, index: int, text: Prompt) -> NDArray[np.int32]:
    try:
        return core.encode(text, parameter=f"texts[{index}]")
    except ParameterError as error:
        place = None if error.index is None else f"[{error.index}]"
        raise ParameterError(str(error), parameter="texts", index=index, field=place, value=error.value) from None
