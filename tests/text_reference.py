"""Tokenizers as slow and readable as possible, the oracles of the fast ones.

Their regexes run on Python's own engine, with the Unicode classes spelled out: nothing is shared with the fast path
but the patterns and the vocabulary.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from itertools import pairwise

from muser.text import byte_level
from muser.text.pretokenizers import PreTokenizer

WHITE_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"  # Unicode's White_Space


@cache
def old_characters() -> str:
    """Characters that every Unicode since 3.2 classifies alike, so that no two libraries can differ on them."""
    every = map(chr, range(sys.maxunicode + 1))
    categories = ((c, unicodedata.category(c), unicodedata.ucd_3_2_0.category(c)) for c in every)
    return "".join(c for c, now, then in categories if now == then and now not in ("Cn", "Cs"))


@cache
def character_class(category: str) -> str:
    """The inside of a [...] that matches \\p{category}."""
    members = [c for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)).startswith(category)]
    ranges: list[list[int]] = []
    for c in members:
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


@cache
def python_regex(pattern: str) -> re.Pattern[str]:
    """An Oniguruma pattern for Python's engine, as one group, so that ``split`` keeps the matches."""
    parts, inside = [], False
    for token in re.findall(r"\\p\{\w+\}|\\.|.", pattern, re.DOTALL):
        if token.startswith(r"\p"):
            members = character_class(token[3:-1])
            parts.append(members if inside else f"[{members}]")
        elif token == r"\s":
            parts.append(WHITE_SPACE if inside else f"[{WHITE_SPACE}]")
        elif token == r"\S":
            parts.append(f"[^{WHITE_SPACE}]")
        else:
            inside = {"[": True, "]": False}.get(token, inside)
            parts.append(token)
    return re.compile("(" + "".join(parts) + ")")


def words(pre: PreTokenizer, text: str) -> list[str]:
    """Every pattern cuts the pieces that the one before left, into its matches and what is between them."""
    pieces = [text] if text else []
    for pattern in pre.patterns:
        pieces = [piece for whole in pieces for piece in python_regex(pattern).split(whole) if piece]
    return pieces


def byte_pair_merge(word: str, merges: list[str]) -> list[str]:
    """Applies the earliest merge that applies anywhere, leftmost place first, until none does."""
    ranks = {tuple(merge.split(" ")): rank for rank, merge in reversed(list(enumerate(merges)))}
    pieces = [byte_level.CHARACTERS[byte] for byte in word.encode()]
    while True:
        found = [(ranks[pair], at) for at, pair in enumerate(pairwise(pieces)) if pair in ranks]
        if not found:
            return pieces
        _, at = min(found)
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]


def sentencepiece_merge(text: str, scores: dict[str, float]) -> list[str]:
    """Merges the neighbours that make the piece of the best score, leftmost first, until none make a piece."""
    pieces = list(text)
    while True:
        unions = [left + right for left, right in pairwise(pieces)]
        found = [(-scores[union], at) for at, union in enumerate(unions) if union in scores]
        if not found:
            return pieces
        _, at = min(found)
        pieces[at : at + 2] = [unions[at]]
