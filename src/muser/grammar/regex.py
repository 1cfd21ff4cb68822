"""Regular expressions as the engine's notation takes them. The text must match as a whole.

Syntax is that of Rust's ``regex`` crate, which lacks what no automaton can do: look-around, back-references, word
boundaries, anchors of lines. ``^`` at the beginning and ``$`` at the end may be written and change nothing.
"""

from __future__ import annotations

import re

from ..errors import GrammarError, GrammarLimitError
from .backend import CONDITIONS
from .lark import HEADER
from .places import Source

_VERBOSE = re.compile(r"\(\?[a-wyz]*x")
_CARET = re.compile(r"^    ( *)\^", re.MULTILINE)
_REASON = re.compile(r"^error: (.*)", re.MULTILINE)
_SIGNS = {"Word": ("\\b", "\\B", "\\<", "\\>"), "Start": ("^", "\\A"), "": ("$", "\\z")}
_PARTS = re.compile(r"\\.|\[\^?\]?|.", re.DOTALL)
_ESCAPED = {"/": "\\x2F", "\n": "\\n", "\r": "\\r", "\0": "\\x00"}


def write(source: Source) -> str:
    pattern, _ = _escaped(source)
    return f"{HEADER}start: /{pattern}/\n"


def explained(error: GrammarError, source: Source) -> GrammarError:
    """The engine's error with the place in the pattern as the user wrote it."""
    message = str(error)
    for condition, unsupported in CONDITIONS.items():
        if message.startswith(unsupported):
            return source.error(unsupported, _condition(source.text, condition))
    reason, caret = _REASON.search(message), _CARET.search(message)
    if isinstance(error, GrammarLimitError) or reason is None or caret is None:
        return error
    _, offsets = _escaped(source)
    return source.error(reason.group(1), offsets[min(len(caret.group(1)), len(offsets) - 1)])


def _condition(text: str, condition: str) -> int:
    """Where the pattern first asks for what no automaton can do."""
    wanted = _SIGNS[condition]
    depth = 0  # of character classes, in which these signs are others
    for part in _PARTS.finditer(text, int(text.startswith("^"))):
        if part[0].startswith("["):
            depth += 1
        elif part[0] == "]" and depth:
            depth -= 1
        elif part[0] in wanted and not depth:
            return part.start()
    return 0


def _escaped(source: Source) -> tuple[str, list[int]]:
    """The pattern as it stands between slashes, and for each of its characters the offset in the source."""
    verbose = _VERBOSE.search(source.text)
    if verbose:
        raise source.error("the flag x is not supported", verbose.start())
    text = source.text
    written: list[str] = []
    offsets: list[int] = []
    at = 0
    start, end = int(text.startswith("^")), len(text) - _ends_with_anchor(text)
    at = start
    while at < end:
        if text[at] == "\\" and at + 1 == len(text):
            raise source.error("a backslash with nothing behind it", at)
        step = 2 if text[at] == "\\" and at + 1 < end else 1
        part = text[at : at + step]
        if step == 2:
            new = _ESCAPED.get(part[1], part)
        else:
            new = _ESCAPED.get(part, part)
        written.append(new)
        offsets += [at] * len(new) if step == 1 else [at + min(i, 1) for i in range(len(new))]
        at += step
    return "".join(written), [*offsets, end]


def _ends_with_anchor(text: str) -> bool:
    backslashes = len(text) - 1 - len(text[:-1].rstrip("\\"))
    return text.endswith("$") and backslashes % 2 == 0
