"""Where a long text may be cut without changing one token.

The ``tokenizers`` library keeps the interpreter lock while it encodes, about 0.6 s for 1 MB, and every other thread
of the host would wait that long between two tokens. Short pieces give the others their turn.

A cut is safe in front of a space that follows anything but white space, and between a letter and a line feed or a
CJK comma or full stop: in no supported pattern can one piece hold both sides, and none looks back across them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from ..errors import ParameterError

CHUNK = 4096  # characters, 2 to 3 ms

# Oniguruma gives up (and the library panics, on stderr) after ten million retries in one match; a run of capitals or
# of spaces costs up to three a character. The SentencePiece merges need some 100 bytes a character.
LONGEST_RUN = 2_000_000

# Letters in every version of Unicode: Latin, kana, CJK, Hangul.
_CUT = r"\S(?= )|[A-Za-z\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fa5\uac00-\ud7a3](?=[\n\u3001\u3002\uff0c])"


@functools.cache
def _cut() -> re.Pattern[str]:
    return re.compile(_CUT)  # a millisecond, which a first short prompt need not wait for


def chunks(text: str, size: int = CHUNK) -> Iterator[str]:
    """Pieces of ``text`` of at least ``size`` characters each (but the last), cut at the first safe place after."""
    start = 0
    while len(text) - start > size:
        cut = _cut().search(text, start + size - 1)
        if cut is None:
            break
        yield check_length(text[start : cut.end()])
        start = cut.end()
    if start < len(text):
        yield check_length(text[start:])


def check_length(chunk: str) -> str:
    """The same text; ParameterError where it is too long for one piece."""
    if len(chunk) > LONGEST_RUN:
        raise ParameterError(
            f"text has {len(chunk)} characters without a place to cut; the limit is {LONGEST_RUN}",
            parameter="text",
            value=chunk[:40],
        )
    return chunk
