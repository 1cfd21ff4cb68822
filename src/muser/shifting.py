"""Which tokens stay when a context is full: the first ``keep``, and the newest whole turns."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]


def shorten(tokens: Tokens, keep: int, least: int, ends: AbstractSet[int]) -> Tokens:
    """Without ``least`` tokens or more after the first ``keep``: the cut is made behind the first end of a turn
    (a token of ``ends``) at which so many are gone, or exactly there if no turn ends before the last token."""
    first = min(keep + least, tokens.size)
    behind = np.flatnonzero(np.isin(tokens[first - 1 : -1], list(ends))) if first > keep else np.empty(0, np.int64)
    cut = first + int(behind[0]) if behind.size else first
    return np.concatenate([tokens[:keep], tokens[cut:]])


def shifted(tokens: Tokens, keep: int, ends: AbstractSet[int]) -> Tokens:
    """What a full context goes on with: half of what may go is gone, so that shifts are rare."""
    return shorten(tokens, keep, (tokens.size - keep + 1) // 2, ends)


def fitting(prompt: Tokens, keep: int, room: int, ends: AbstractSet[int]) -> Tokens:
    """A prompt of at most ``room`` tokens."""
    return shorten(prompt, keep, prompt.size - room, ends)


def turns(tokens: Tokens, count: int, ends: AbstractSet[int]) -> int:
    """Tokens of the first ``count`` turns, their ends included; 0 if there are not so many ends."""
    found = np.flatnonzero(np.isin(tokens, list(ends)))
    return int(found[count - 1]) + 1 if 0 < count <= found.size else 0
