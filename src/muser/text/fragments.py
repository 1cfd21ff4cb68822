"""Cuts the tokens that are matched literally out of a text, before anything else looks at it.

At every place the longest literal wins, from left to right. Memory and time are bounded by the size of the literals
and the length of the text: there is no backtracking for a hostile vocabulary or prompt to use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator


class Fragments:
    """``literals``: (text, id) pairs, no text empty."""

    def __init__(self, literals: Iterable[tuple[str, int]]) -> None:
        self._ids = dict(literals)
        # The first two characters tell almost every place apart: a single space from a run, "<" from "<table>".
        lengths: dict[str, set[int]] = {}
        for text in self._ids:
            lengths.setdefault(text[:2], set()).add(len(text))
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        first = sorted({text[0] for text in self._ids})
        self._candidates = re.compile("[" + "".join(map(re.escape, first)) + "]") if first else None

    def split(self, text: str) -> Iterator[str | int]:
        """Ids of literals, and the non-empty texts between them, in order."""
        done = 0
        for match in self._candidates.finditer(text) if self._candidates else ():
            start = match.start()
            if start < done:
                continue
            length = self._longest(text, start)
            if length:
                if start > done:
                    yield text[done:start]
                done = start + length
                yield self._ids[text[start:done]]
        if done < len(text):
            yield text[done:]

    def _longest(self, text: str, start: int) -> int:
        for length in self._lengths.get(text[start : start + 2], ()):
            if text[start : start + length] in self._ids:
                return length
        return 1 if text[start] in self._ids else 0
