"""``muser.Grammar``: what a generation's text must look like. Immutable, compiled once for each vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from .. import _checks as checks
from ..errors import GrammarError, GrammarLimitError
from . import backend, gbnf, lark, regex, rules, schema
from .lexemes import Lexemes
from .nodes import Literal, Rule, choice
from .places import Source
from .positions import TooLargeError


class Grammar:
    """One of :meth:`gbnf`, :meth:`json_schema`, :meth:`json_object`, :meth:`regex`, :meth:`choice`,
    :meth:`response_format`; for ``SamplingParams(grammar=...)`` and the keyword ``grammar`` of ``generate``.

    One object serves any number of generations, threads and models. Equal grammars compare equal. Making one takes a
    millisecond or a few, and some seconds at most for one near the bounds (docs/grammar.md).

    Raises:
        GrammarError: the text is no such grammar; ``.line`` and ``.column`` say where it is wrong, if it is text.
        GrammarLimitError: compiling it takes more than any sensible grammar does.
        ParameterError: an argument of another type.
    """

    __slots__ = ("_kind", "_lark")
    _kind: str
    _lark: str

    def __init__(self) -> None:
        raise TypeError("use Grammar.gbnf, .json_schema, .json_object, .regex, .choice or .response_format")

    @classmethod
    def _made(cls, kind: str, text: str) -> Grammar:
        self = object.__new__(cls)
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_lark", text)
        return self

    @classmethod
    def gbnf(cls, text: str) -> Grammar:
        """llama.cpp's notation; the text begins with the rule ``root``.

        Recursion of every kind is allowed, to the left as well. A rule without an end, a rule that does not exist
        and one that is defined twice are errors, with their place.
        """
        source = Source("grammar", checks.string("text", text))
        return cls._made("gbnf", _checked_rules(rules.check(gbnf.parse(source), source)))

    @classmethod
    def json_schema(cls, schema_: Mapping[str, Any] | bool | str, *, max_whitespace: int = 20) -> Grammar:
        """JSON that a JSON schema accepts (draft 2020-12 where it can be written as a grammar).

        Args:
            schema_: the schema, or its JSON text. A keyword that cannot be kept, such as "not" or "uniqueItems", is an
                error that names it. Properties come in the order in which the schema names them.
            max_whitespace: characters of white space between two parts of the JSON, at most: one space, or a line
                break and blanks after it. 0: none at all. Before and after the JSON there is none. Without a bound
                a model can write blanks until its tokens are spent.
        """
        blanks = checks.integer("max_whitespace", max_whitespace, 0, 1000)
        text = schema.write(schema_, blanks)
        backend.check_grammar(text)
        return cls._made("json_schema", text)

    @classmethod
    def json_object(cls, *, max_whitespace: int = 20) -> Grammar:
        """Any JSON object."""
        made = cls.json_schema({"type": "object"}, max_whitespace=max_whitespace)
        return cls._made("json_object", made._lark)

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Text that matches the whole pattern. Syntax: Rust's ``regex`` crate; no look-around, no back-references, no
        word boundaries (``\\b``), ``^`` and ``$`` only around the whole."""
        source = Source("pattern", checks.string("pattern", pattern))
        text = regex.write(source)
        try:
            backend.check_grammar(text)
        except GrammarError as error:
            raise regex.explained(error, source) from None
        return cls._made("regex", text)

    @classmethod
    def choice(cls, options: Iterable[str]) -> Grammar:
        """One of these texts, of which there must be at least one."""
        rule = "must be an iterable of at least one str"
        if isinstance(options, (str, bytes)) or not isinstance(options, Iterable):
            raise checks.refuse("options", rule, options)
        texts = list(options)
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise checks.refuse("options", "must be a str", text, index)
        if not texts:
            raise checks.refuse("options", rule, texts)
        Source("options", "".join(texts))
        body = choice([Literal(text) for text in dict.fromkeys(texts)])
        return cls._made("choice", _checked_rules([Rule(rules.ROOT, 0, body)]))

    @classmethod
    def response_format(cls, value: Mapping[str, Any]) -> Grammar | None:
        """OpenAI's ``response_format``: {"type": "json_object"}, or {"type": "json_schema", "json_schema": {"schema":
        ...}}. None for {"type": "text"}, which asks for nothing."""
        kind = value.get("type") if isinstance(value, Mapping) else None
        if kind == "text":
            return None
        if kind == "json_object":
            return cls.json_object()
        inner = value.get("json_schema") if kind == "json_schema" else None
        if isinstance(inner, Mapping) and "schema" in inner:
            return cls.json_schema(inner["schema"])
        raise checks.refuse(
            "response_format", 'must have the type "text", "json_object" or "json_schema" (with json_schema.schema)', value
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Grammar does not change")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Grammar does not change")

    def __eq__(self, other: object) -> bool:
        return self._lark == other._lark if isinstance(other, Grammar) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._lark)

    def __reduce__(self) -> tuple[Any, ...]:
        return Grammar._made, (self._kind, self._lark)

    def __repr__(self) -> str:
        return f"<muser.Grammar {self._kind}, {len(self._lark)} characters>"


def _checked_rules(order: list[Rule]) -> str:
    """In the form with the longest lexemes that is exact and not too much for the engine."""
    lexemes = None
    if lark.is_regular(order):
        text = lark.as_regex(order)
    else:
        with suppress(TooLargeError):
            lexemes = Lexemes(order)
        text = lark.as_rules(order, lexemes)
    try:
        backend.check_grammar(text)
    except GrammarLimitError:
        text = lark.as_rules(order, None)
        backend.check_grammar(text)
    return text
