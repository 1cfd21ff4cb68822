"""Which filters and methods a template may use, and what each of them may cost before it runs.

Whatever reads its input once and writes no more than a few times its length needs no entry of its own: the caller
pays for input and result. The checks here are for what a number in the template could blow up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from jinja2.exceptions import SecurityError

from ..errors import TemplateError
from .limits import INTEGER_BITS, Limits

Arguments = tuple[Any, ...]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WIDTH = re.compile(r"\d{5}|\*")
_MOST = 9_999


def check_operator(limits: Limits, operator: str, left: Any, right: Any) -> None:
    """Before ``left operator right``."""
    if operator == "+":
        for side in (left, right):
            if isinstance(side, str):
                limits.copy(len(side))
    elif operator == "*":
        for text, count in ((left, right), (right, left)):
            if isinstance(text, (str, list, tuple, bytes)) and isinstance(count, int):
                limits.copy(len(text) * max(count, 0) * (1 if isinstance(text, str) else 8))
    elif operator == "**":
        if isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > INTEGER_BITS:
            raise TemplateError("the chat template makes an integer that is too large")
    elif operator == "%" and isinstance(left, str):
        check_printf(limits, left, right)


def check_printf(limits: Limits, spec: str, values: Any) -> None:
    limits.copy(2 * len(spec))
    if _WIDTH.search(spec):
        raise TemplateError("the chat template formats with a width beyond 9,999")
    # A mapping may be printed once for every two characters of the format.
    limits.copy(limits._walk(values, 0) * (1 + len(spec) // 2 if isinstance(values, dict) else 1))
    limits.copy(_MOST * spec.count("%"))


# -- filters: (limits, value, *args, **kwargs) -> the positional arguments to use -----------------------------------


def _plain(limits: Limits, *args: Any, **kwargs: Any) -> Arguments:
    return args


def _each(limits: Limits, *args: Any, **kwargs: Any) -> Arguments:
    if hasattr(args[0], "__len__"):  # what has no length counts as it is drawn
        limits.step(8 * len(args[0]))
    return args


def _read(limits: Limits, *args: Any, **kwargs: Any) -> Arguments:
    for value in (*args, *kwargs.values()):
        limits.read(value)
    return args


def _printed(limits: Limits, *args: Any, **kwargs: Any) -> Arguments:
    limits.print(args[0])
    return args


def _numbers_small(limits: Limits, *args: Any, **kwargs: Any) -> Arguments:
    limits.read(args[0])
    for value in (*args[1:], *kwargs.values()):
        if isinstance(value, (int, float)) and abs(value) > _MOST:
            raise TemplateError(f"a filter of the chat template has an argument beyond {_MOST}")
    return args


def _tojson(limits: Limits, *args: Any, **kwargs: Any) -> Arguments:
    text = limits._walk(args[0], 0)
    indent = kwargs.get("indent", args[2] if len(args) > 2 else None)
    if (isinstance(indent, int) and indent > 64) or (isinstance(indent, str) and len(indent) > 64):
        raise TemplateError("tojson indents by at most 64")
    limits.copy(text * (2 if indent is None else 4))
    for separator in kwargs.get("separators") or ():
        limits.copy(len(str(separator)) * text)
    return args


def _indent(limits: Limits, *args: Any, **kwargs: Any) -> Arguments:
    width = kwargs.get("width", args[1] if len(args) > 1 else 4)
    size = len(width) if isinstance(width, str) else width if isinstance(width, int) else 0
    text = limits.print(args[0])
    if isinstance(text, str):
        limits.copy((text.count("\n") + 1) * max(size, 0))
    return args


def _replace(limits: Limits, *args: Any, **kwargs: Any) -> Arguments:
    text = str(limits.print(args[0]))
    old = kwargs.get("old", args[1] if len(args) > 1 else "")
    new = kwargs.get("new", args[2] if len(args) > 2 else "")
    limits.copy(_replaced(text, str(old), str(new)))
    return args


def _join(limits: Limits, *args: Any, **kwargs: Any) -> Arguments:
    elements = _listed(limits, args[0])
    separator = kwargs.get("d", args[1] if len(args) > 1 else "")
    limits.copy(len(str(separator)) * len(elements))
    for element in elements:
        limits.print(element)
    return (elements, *args[1:])


def _sum(limits: Limits, *args: Any, **kwargs: Any) -> Arguments:
    limits.read(args[0])
    start = kwargs.get("start", args[2] if len(args) > 2 else 0)
    if not isinstance(start, (int, float)):  # adding up lists copies each of them as often as there are others
        raise TemplateError("the filter sum adds numbers only")
    return args


def _format(limits: Limits, *args: Any, **kwargs: Any) -> Arguments:
    check_printf(limits, str(args[0]), kwargs or args[1:])
    return args


def _listed(limits: Limits, value: Any) -> list[Any]:
    elements: list[Any] = []
    for element in value:
        limits.step()
        elements.append(element)
    return elements


def _replaced(text: str, old: str, new: str) -> int:
    """Characters of ``text.replace(old, new)``, at most."""
    found = text.count(old) if old else len(text) + 1
    return len(text) + found * len(new)


FILTERS: dict[str, Callable[..., Arguments]] = {
    **dict.fromkeys(words("abs attr count d default first int float items last length list reverse"), _plain),
    **dict.fromkeys(words("map reject rejectattr select selectattr"), _each),
    **dict.fromkeys(words("dictsort groupby max min sort unique"), _read),
    **dict.fromkeys(words("capitalize e escape forceescape lower safe string title trim upper wordcount"), _printed),
    **dict.fromkeys(words("batch center round slice truncate"), _numbers_small),
    "tojson": _tojson,
    "indent": _indent,
    "replace": _replace,
    "join": _join,
    "sum": _sum,
    "format": _format,
}

# Tests that look at more than one end of a value.
TESTS = dict.fromkeys(words("eq equalto == ne != lt lessthan < le <= gt greaterthan > ge >= in lower upper"), _read)

# -- methods ----------------------------------------------------------------------------------------------------

_TEXT_METHODS = words(
    "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit isidentifier islower "
    "isnumeric isprintable isspace istitle isupper lower lstrip partition removeprefix removesuffix rfind rindex "
    "rpartition rsplit rstrip split splitlines startswith strip swapcase title upper "
    "unescape striptags escape"
)
_PADDING = words("center ljust rjust zfill expandtabs")
_METHODS: dict[type, frozenset[str]] = {
    list: frozenset(("copy", "count", "index")),
    tuple: frozenset(("count", "index")),
    dict: frozenset(("copy", "get", "items", "keys", "values")),
}


def check_method(limits: Limits, owner: Any, name: str, args: Arguments, kwargs: dict[str, Any]) -> None:
    """Before ``owner.name(*args, **kwargs)`` of a builtin type; SecurityError where it is not to be called."""
    if not isinstance(owner, str):
        for kind, allowed in _METHODS.items():
            if isinstance(owner, kind) and name in allowed:
                if kind is not dict:
                    limits.read(owner)
                return
        raise SecurityError(f"{type(owner).__name__}.{name} is not safely callable")
    if name in _TEXT_METHODS:
        limits.print(owner)
    elif name in _PADDING:
        width = kwargs.get("tabsize", args[0] if args else 8)
        if not isinstance(width, int) or width > _MOST:
            raise TemplateError(f"the chat template pads by more than {_MOST}")
        limits.copy(len(owner) + width * (owner.count("\t") if name == "expandtabs" else 1))
    elif name == "replace":
        old, new = (kwargs.get(key, args[place] if len(args) > place else "") for place, key in enumerate(("old", "new")))
        limits.copy(_replaced(owner, str(old), str(new)))
    elif name == "join" and len(args) == 1 and isinstance(args[0], Iterable):
        if not isinstance(args[0], (str, list, tuple, dict)):
            raise TemplateError("join takes a list")
        limits.copy(len(owner) * len(args[0]))
        for element in args[0]:
            limits.print(element)
    else:
        raise SecurityError(f"str.{name} is not safely callable")
