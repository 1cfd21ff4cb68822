"""A chat template: Jinja source from a model file, compiled at its first use and rendered within limits.

Every prompt is rendered twice. The first rendering is what transformers renders. In the second one, each control
token that the template itself spells is one private character, so that the result knows where the template's own
control tokens are; whatever came from a message is text, also where it looks like one, or where two messages
together do. Both must be the same text. The private characters occur nowhere in the input.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import jinja2
from jinja2 import meta

from ..errors import MuserError, TemplateError
from .compiler import mark_literals
from .limits import Limits
from .sandbox import Sandbox

MAX_SOURCE = 200_000  # characters; the longest in use have 20,000
_PRIVATE = range(0xF0000, 0x10FFFE)  # the two private planes, in which no text has a meaning

Split = Callable[[str], Iterator["str | int"]]
"""Cuts a text into control tokens (ids) and the texts between them."""


@dataclass(frozen=True)
class Rendered:
    """``text``, and the same in parts: texts, and ids of the control tokens that the template wrote."""

    text: str
    parts: tuple[str | int, ...]


class ChatTemplate:
    """Immutable; any number of threads may render at once. Nothing is compiled before it is needed.

    ``split`` knows the control tokens of the vocabulary, ``spell`` their texts.
    """

    def __init__(self, source: str, split: Split, spell: Callable[[int], str]) -> None:
        self.source = source
        self._split = split
        self._spell = spell
        self._lock = threading.Lock()
        self._plain: CodeType | None = None
        self._marked: _Marked | None = None
        self._variables: frozenset[str] | None = None

    @property
    def variables(self) -> frozenset[str]:
        """Names that the template reads and does not set. TemplateError where it does not compile."""
        if self._variables is None:
            with _failures():
                tree = Sandbox(Limits()).parse(_checked(self.source))
                self._variables = frozenset(meta.find_undeclared_variables(tree))
        return self._variables

    def render(self, variables: Mapping[str, Any], special: Mapping[str, int]) -> Rendered:
        """``variables``: plain data. ``special``: more variables, each a control token.

        Raises TemplateError: the template is broken, refuses the messages, or goes beyond its limits.
        """
        now = datetime.datetime.now()
        texts = {name: self._spell(token) for name, token in special.items()}
        size, used = _survey(variables)
        with self._lock:
            if self._plain is None:
                self._plain = _compile(self.source, Sandbox(Limits()))
            plain = self._plain
        text = _run(plain, {**texts, **variables}, size, now)
        marked = self._marking(used, texts)
        kept = {name: marked.mark(texts[name]) for name in texts if name not in variables}
        again = _run(marked.code, {**kept, **variables}, size, now)
        parts = tuple(_parts(again, marked.tokens))
        if "".join(self._spell(part) if isinstance(part, int) else part for part in parts) != text:
            raise TemplateError(
                "the chat template treats its control tokens as text, so that they cannot be told from a user's; "
                "render the prompt yourself and pass model.tokenize(text, parse_special=True) to generate"
            )
        return Rendered(text, parts)

    def _marking(self, used: frozenset[str], texts: dict[str, str]) -> _Marked:
        with self._lock:
            marked = self._marked
            if marked is None or not used.isdisjoint(marked.tokens):
                free = (chr(code) for code in _PRIVATE if chr(code) not in used and chr(code) not in self.source)
                marked = _Marked(self.source, self._split, texts, free)
                if not used:
                    self._marked = marked
            return marked


class _Marked:
    """The template with a private character for every control token that it spells."""

    def __init__(self, source: str, split: Split, variables: dict[str, str], free: Iterator[str]) -> None:
        self.tokens: dict[str, int] = {}
        self._characters: dict[int, str] = {}
        self._split = split
        self._free = free
        for text in variables.values():
            self.mark(text)
        self.code = _compile(
            source, Sandbox(Limits(), rewrite=lambda tree: mark_literals(tree, self.mark, variables))
        )

    def mark(self, text: str) -> str:
        return "".join(self._character(part) if isinstance(part, int) else part for part in self._split(text))

    def _character(self, token: int) -> str:
        character = self._characters.get(token)
        if character is None:
            character = next(self._free, None)
            if character is None:
                raise TemplateError("the messages hold every private character there is")
            self._characters[token] = character
            self.tokens[character] = token
        return character


class _failures:
    """Whatever goes wrong in a template is a TemplateError; what muser raises itself passes."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, jinja2.TemplateSyntaxError):
            raise TemplateError(f"the chat template, line {error.lineno}: {error.message}", line=error.lineno) from None
        if isinstance(error, Exception) and not isinstance(error, MuserError):
            what = "nests too deeply" if isinstance(error, RecursionError) else f"fails: {str(error)[:300]}"
            raise TemplateError(f"the chat template {what} ({type(error).__name__})") from None


def _checked(source: str) -> str:
    if len(source) > MAX_SOURCE:
        raise TemplateError(f"the chat template has {len(source)} characters, more than {MAX_SOURCE}")
    return _encodable(source)


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TemplateError(f"the chat template has {text[error.start]!r}, which UTF-8 cannot encode") from None
    return text


def _compile(source: str, sandbox: Sandbox) -> CodeType:
    with _failures():
        return sandbox.compile(_checked(source), "chat template", "chat template")


def _run(code: CodeType, variables: dict[str, Any], size: int, now: datetime.datetime) -> str:
    sandbox = Sandbox(Limits(size), now=now)
    with _failures():
        return _encodable(jinja2.Template.from_code(sandbox, code, sandbox.make_globals(None)).render(variables))


def _survey(variables: Mapping[str, Any]) -> tuple[int, frozenset[str]]:
    """The characters in all values, and which private ones are among them."""
    size = 0
    used: set[str] = set()
    stack: list[Any] = [variables]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            size += len(value)
            if not value.isascii():
                used.update(character for character in value if ord(character) in _PRIVATE)
        elif isinstance(value, Mapping):
            stack += [*value.keys(), *value.values()]
        elif isinstance(value, (list, tuple)):
            stack += value
    return size, frozenset(used)


def _parts(text: str, tokens: Mapping[str, int]) -> Iterator[str | int]:
    start = 0
    for place, character in enumerate(text):
        token = tokens.get(character)
        if token is not None:
            if place > start:
                yield text[start:place]
            yield token
            start = place + 1
    if start < len(text):
        yield text[start:]
