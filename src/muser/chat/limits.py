"""How much work one rendering may do. A chat template comes from a file that nobody has read: its loops, its calls
and the text it makes are counted, and it ends with a typed error when it goes on for too long.

A step is about one node of the template, evaluated once. A character counts whenever it is copied into a new
string; an element of a list or dict counts as eight. Both limits grow with the conversation, so that they bind
nobody who only renders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import GeneratorType
from typing import Any

from ..errors import TemplateError

STEPS = 5_000_000  # 1 to 3 seconds of a hostile template; Muse Glimmer's own takes some 500 a message
STEPS_PER_CHARACTER = 16
CHARACTERS = 16_000_000
CHARACTERS_PER_CHARACTER = 64
ELEMENT = 8
DEPTH = 100  # of lists in lists; nothing real has ten
INTEGER_BITS = 4096

_SCALARS = (bool, int, float, type(None))
_SEQUENCES: tuple[type, ...] = (list, tuple, set, frozenset, type({}.items()), type({}.keys()), type({}.values()))


class Limits:
    """The account of one rendering, in one thread. ``size``: characters of everything that is rendered."""

    def __init__(self, size: int = 0) -> None:
        self.steps = STEPS + STEPS_PER_CHARACTER * size
        self.characters = CHARACTERS + CHARACTERS_PER_CHARACTER * size

    def step(self, count: int = 1) -> bool:
        """Always True, so that it can stand in a condition."""
        self.steps -= count
        if self.steps < 0:
            raise TemplateError("the chat template takes too many steps")
        return True

    def copy(self, characters: int) -> None:
        """Before that many characters are written into a new string."""
        self.characters -= characters
        if self.characters < 0:
            raise TemplateError("the chat template makes too much text")

    def read(self, value: Any) -> Any:
        """The same value, after paying for one look at all of it: a comparison, a search, a hash.

        Nested values count as often as they are met: a list that holds one list twice is as long as it prints.
        """
        kind = type(value)
        if kind is str:
            if len(value) > 64:
                self.step(len(value) >> 6)
        elif kind is range:
            self.step(len(value))
        elif kind not in _SCALARS:
            if isinstance(value, Iterator) and kind is not GeneratorType:  # generators count what they give
                raise TemplateError("the chat template reads an iterator, such as loop, as a value")
            self._walk(value, 0)
        return value

    def print(self, value: Any) -> Any:
        """The same value, after paying for its text."""
        if isinstance(value, str):
            self.copy(len(value))
        elif type(value) not in _SCALARS:
            self.copy(self._walk(value, 0))
        return value

    def keep(self, value: Any) -> Any:
        """The same value, after paying for having made it: its elements, but not what is in them."""
        if isinstance(value, str):
            self.copy(len(value))
        elif isinstance(value, (list, tuple, dict, set, frozenset)):
            self.step(1 + len(value))
            self.copy(ELEMENT * len(value))
        elif isinstance(value, int) and value.bit_length() > INTEGER_BITS:
            raise TemplateError(f"the chat template makes an integer of {value.bit_length()} bits")
        return value

    def nest(self, value: Any) -> Any:
        """The same container, after paying for all that is in it. Whatever puts one list into another comes here,
        so that no list is longer, printed, than the steps it took to make it."""
        self.copy(ELEMENT * len(value))
        self._walk(value, 0)
        return value

    def _walk(self, value: Any, depth: int) -> int:
        """Pays a step for every value inside; returns about how many characters it prints."""
        if isinstance(value, str):
            self.step(1 + (len(value) >> 6))
            return len(value) + 2
        if type(value) is range:
            self.step(len(value))
            return 32
        if isinstance(value, Mapping):
            inside: list[Any] = [value.keys(), value.values()]
        elif isinstance(value, _SEQUENCES):
            inside = [value]
        else:
            attributes = namespace_attributes(value)
            if attributes is None:
                self.step()
                return 32
            inside = [attributes.keys(), attributes.values()]
        if depth >= DEPTH:
            raise TemplateError("the chat template nests lists too deeply")
        total = 2
        for part in inside:
            self.step(len(part) + 1)
            for element in part:
                total += 2 + (24 if type(element) in _SCALARS else self._walk(element, depth + 1))
        return total


def namespace_attributes(value: Any) -> dict[str, Any] | None:
    """What a ``namespace()`` of the template holds; None for another object."""
    from jinja2.utils import Namespace

    if not issubclass(type(value), Namespace):
        return None
    found: dict[str, Any] = object.__getattribute__(value, "_Namespace__attrs")
    return found
