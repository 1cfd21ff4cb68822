"""Stop strings, found in text while it arrives in pieces.

The rule does not depend on where the pieces end: the text ends at the first character with which any stop string is
complete, and if several are, the longest of them counts. Text that may still become a stop string is withheld, and
nothing else: the longest end of the text that is a proper beginning of a stop string.
"""

from __future__ import annotations

from collections.abc import Iterable


class StopFilter:
    """One stream of text. Time is linear in the text, whatever the stop strings (Knuth, Morris and Pratt)."""

    def __init__(self, stops: Iterable[str], *, include: bool = False) -> None:
        """``include``: the stop string that was found stays at the end of the text."""
        self._matchers = [_Matcher(stop) for stop in dict.fromkeys(stops)]
        self._beginnings = frozenset(matcher.stop[0] for matcher in self._matchers)
        self._include = include
        self._held = ""
        self.found: str | None = None
        """The stop string that ended the text."""

    @property
    def held(self) -> str:
        """What is withheld."""
        return self._held

    def push(self, text: str) -> str:
        """The text that may be delivered now; nothing after a stop string was found."""
        if self.found is not None:
            return ""
        if not self._held and self._beginnings.isdisjoint(text):
            return text
        for index, character in enumerate(text):
            complete = [matcher.stop for matcher in self._matchers if matcher.completed_by(character)]
            if complete:
                self.found = max(complete, key=len)
                whole = self._held + text[: index + 1]
                self._held = ""
                return whole if self._include else whole[: -len(self.found)]
        whole = self._held + text
        ready = len(whole) - max(matcher.matched for matcher in self._matchers)
        self._held = whole[ready:]
        return whole[:ready]

    def flush(self) -> str:
        """The text is over: what was withheld is no stop string."""
        held, self._held = self._held, ""
        for matcher in self._matchers:
            matcher.matched = 0
        return held


class _Matcher:
    """How much of the beginning of one stop string the text ends with."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.matched = 0
        self._shorter = _borders(stop)

    def completed_by(self, character: str) -> bool:
        matched, stop = self.matched, self.stop
        while matched and stop[matched] != character:
            matched = self._shorter[matched - 1]
        if stop[matched] == character:
            matched += 1
        if matched == len(stop):
            self.matched = 0
            return True
        self.matched = matched
        return False


def _borders(text: str) -> list[int]:
    """For every prefix of ``text``: the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(text)
    length = 0
    for index in range(1, len(text)):
        while length and text[index] != text[length]:
            length = borders[length - 1]
        if text[index] == text[length]:
            length += 1
        borders[index] = length
    return borders
