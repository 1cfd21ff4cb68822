"""A thinking budget: when the reasoning has taken so many tokens, the tokens that end it are put in the place of the
ones that were sampled, and the model goes on with its answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from .reader import Reader


class ThinkingBudget:
    """Of one generation. ``limit``: tokens of reasoning; 0 leaves it out, None is no limit. ``first``: reasoning that
    the model could leave out is begun for it, because a grammar waits for its answer."""

    def __init__(self, limit: int | None, reader: Reader, *, first: bool) -> None:
        self._limit = limit
        self._first = first
        self._reader = reader
        self._forced: deque[int] = deque()
        self._closed = False

    @property
    def forcing(self) -> bool:
        """Whether the next token is decided already."""
        return bool(self._forced)

    def choose(self, token: int) -> int:
        """The token to go on with, where ``token`` was sampled. All tokens before it have been read."""
        reader = self._reader
        if self._first and reader.untouched and not self._spent():
            self._forced.extend(reader.opening())
        self._first = False
        if not self._forced and self._spent() and not reader.closes(token):
            closing = reader.closing(again=self._closed)
            self._forced.extend(closing)
            self._closed = self._closed or bool(closing)
        return self._forced.popleft() if self._forced else token

    def state(self) -> dict[str, Any]:
        """For a file, after the first token."""
        return {"forced": list(self._forced), "closed": self._closed}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._first = False
        self._forced = deque(state["forced"])
        self._closed = bool(state["closed"])

    def _spent(self) -> bool:
        reader = self._reader
        if self._limit is None:
            return False
        if reader.untouched:
            return self._limit == 0
        return reader.reasoning and reader.reasoning_tokens >= self._limit
