"""Rules that clang's C++ does not have and Metal, or this project's subset of it, has.

Types and address spaces are clang's to check (see build.py, the lint mode); here is what the words alone show.
"""

from __future__ import annotations

from .errors import MetalSyntaxError
from .items import Item, walk
from .lexer import Token, match_bracket, split_commas
from .names import Names

_SPACES = ("device", "constant", "threadgroup", "thread")
_FORBIDDEN = {
    "double": "Metal has no double",
    "goto": "Metal has no goto",
    "virtual": "Metal has no virtual functions",
    "dynamic_cast": "Metal has no run-time types",
    "typeid": "Metal has no run-time types",
    "new": "Metal has no heap",
    "delete": "Metal has no heap",
    "try": "Metal has no exceptions",
    "catch": "Metal has no exceptions",
    "throw": "Metal has no exceptions",
    "thread_local": "Metal has no thread_local",
    "register": "Metal has no register variables",
    "asm": "no assembly",
    "texture2d": "this project's kernels use buffers alone",
    "sampler": "this project's kernels use buffers alone",
    "wchar_t": "Metal has no wchar_t",
    "noexcept": "Metal has no exceptions",
    "mutable": "not in this project's subset",
    "friend": "not in this project's subset",
    "const_cast": "not in this project's subset",
    "extern": "a Metal file stands alone",
}


def lint(tokens: list[Token], items: list[Item], names: Names) -> None:
    for i, token in enumerate(tokens):
        if token.text in _FORBIDDEN:
            raise token.error(f"{token.text}: {_FORBIDDEN[token.text]}")
        if token.text == "[":
            _refuse_lambda(tokens, i)
    _pointers(tokens, items, names)
    for item in walk(items):
        if item.kind in ("function", "kernel"):
            _static_locals(tokens, item)
    _recursion(tokens, items)


def _refuse_lambda(tokens: list[Token], i: int) -> None:
    before, after = tokens[i - 1], tokens[i + 1]
    subscript = before.kind in ("word", "number", "string") or before.text in (")", "]", ">", "[")
    returns = before.text in ("return", "case")
    if after.text != "[" and (not subscript or returns):
        raise tokens[i].error("Metal has no lambda expressions")


def _static_locals(tokens: list[Token], item: Item) -> None:
    for token in tokens[slice(*item.body)]:
        if token.text == "static":
            raise token.error("Metal has no static local variables")


def _pointers(tokens: list[Token], items: list[Item], names: Names) -> None:
    """``TYPE *`` or ``TYPE &`` is always a declarator, and in Metal it says which memory it points to."""
    records = [item.body for item in walk(items) if item.kind == "record" and item.body[0] >= 0]
    for i, token in enumerate(tokens):
        if token.text not in ("*", "&", "&&") or i == 0:
            continue
        before = tokens[i - 1]
        is_type = before.text in names.types or before.text in ("const", "volatile")
        if before.text == ">":
            start = _type_start(tokens, i - 1)
            is_type = start is not None and tokens[start].text in names.types | {"vec", "array"}
        if not is_type or _has_space(tokens, i - 1):
            continue
        if any(start <= i < end and tokens[i + 1].text == "operator" for start, end in records):
            continue
        raise token.error("a pointer or reference without an address space (device, constant, threadgroup, thread)")


def _type_start(tokens: list[Token], close: int) -> int | None:
    depth = 0
    for i in range(close, -1, -1):
        text = tokens[i].text
        if text in (";", "{", "}"):
            return None
        depth += (text == ">") - (text == "<")
        if depth == 0:
            return i - 1
    return None


def _has_space(tokens: list[Token], i: int) -> bool:
    """Looks back over the words of the declaration that ends at ``i``."""
    while i >= 0:
        text = tokens[i].text
        if text in _SPACES:
            return True
        if text == ">":
            start = _type_start(tokens, i)
            if start is None:
                return False
            i = start
            continue
        if text in ("*", "&"):  # a pointer to a pointer: the inner one is looked at by itself
            return True
        if tokens[i].kind != "word" and text != "::":
            return False
        i -= 1
    return False


def _recursion(tokens: list[Token], items: list[Item]) -> None:
    """No function may reach itself. Overloads are told apart by their number of parameters alone."""
    functions: dict[tuple[str, int], Item] = {}
    calls: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for item in walk(items):
        if item.kind in ("function", "kernel"):
            key = (item.name, len(split_commas(tokens, *item.params)))
            functions[key] = item
            calls.setdefault(key, set()).update(_calls(tokens, *item.body))
    for key, item in functions.items():
        seen: set[tuple[str, int]] = set()
        todo = [key]
        while todo:
            for called in calls.get(todo.pop(), ()):
                if called == key:
                    raise tokens[item.name_at].error(f"{item.name} calls itself: Metal has no recursion")
                if called in functions and called not in seen:
                    seen.add(called)
                    todo.append(called)


def _calls(tokens: list[Token], start: int, end: int) -> set[tuple[str, int]]:
    found = set()
    for i in range(start, end - 1):
        if tokens[i].kind != "word":
            continue
        at = i + 1
        if tokens[at].text == "<":
            try:
                at = match_bracket(tokens, at, end) + 1
            except MetalSyntaxError:
                continue  # a comparison
        if tokens[at].text == "(":
            close = match_bracket(tokens, at)
            found.add((tokens[i].text, _arguments(tokens, at + 1, close)))
    return found


def _arguments(tokens: list[Token], start: int, end: int) -> int:
    count, i = (1 if start < end else 0), start
    while i < end:
        if tokens[i].text in ("(", "[", "{"):
            i = match_bracket(tokens, i)
        elif tokens[i].text == ",":
            count += 1
        i += 1
    return count
