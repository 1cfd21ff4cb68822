"""SentencePiece's BPE (``tokenizer.ggml.model`` = ``llama``): the pair with the best score merges first.

Why not the ``tokenizers`` library: its merges have one rank a pair, SentencePiece has one score a piece, so runs
such as "aaaaa" come out differently, and half a million pairs take seconds to build for Gemma. This is small,
exact, and fast enough because words repeat.
"""

from __future__ import annotations

import re
from heapq import heapify, heappop, heappush

import numpy as np

from .chunks import check_length
from .metadata import PREFIX
from .token_type import TokenType
from .vocabulary import Vocabulary

SPACE = "\u2581"  # how SentencePiece writes a space
_BETWEEN = "\ud800"  # no file has it: a lone surrogate is not UTF-8
_CACHED_WORDS = 1 << 16
_CACHED_LENGTH = 32  # characters; longer words hardly repeat


class SpmEncoder:
    """Threads may encode at once: the cache of words is the only thing that changes, one dict operation at a time."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        types = vocabulary.types
        mergeable = {int(TokenType.NORMAL), int(TokenType.UNUSED)}
        self._ids = {
            text: token
            for text, token in vocabulary.ids.items()
            if types[token] in mergeable and token not in vocabulary.control
        }
        # 0 for the best score; equal scores share a rank.
        self._ranks: list[int] = np.unique(-np.asarray(vocabulary.scores), return_inverse=True)[1].tolist()
        self._byte_ids = _byte_ids(vocabulary)
        self._unknown = vocabulary.unknown
        # No merge crosses from a character to the space after it unless some piece holds the two side by side, so
        # words between such places are independent. In Gemma's vocabulary one piece of 262,144 has them.
        crossing = set(re.findall(f"[^{SPACE}{_BETWEEN}](?={SPACE})", _BETWEEN.join(self._ids)))
        self._word_start = re.compile(
            f"(?={SPACE})(?<=[^{SPACE}" + "".join(map(re.escape, sorted(crossing))) + "])"
        )
        self._words: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Ids of a text without special tokens. ``text`` must be encodable as UTF-8."""
        ids: list[int] = []
        words = self._words
        for word in self._word_start.split(text.replace(" ", SPACE)):
            known = words.get(word)
            if known is None:
                known = self._encode_word(check_length(word))
                if len(word) <= _CACHED_LENGTH:
                    if len(words) >= _CACHED_WORDS:
                        words.clear()
                    words[word] = known
            ids += known
        return ids

    def _encode_word(self, word: str) -> list[int]:
        ids: list[int] = []
        end = self._merge(word)
        start = 0
        while start < len(word):
            piece = word[start : end[start]]
            token = self._ids.get(piece)
            if token is not None:
                ids.append(token)
            elif self._byte_ids:
                ids += [self._byte_ids[byte] for byte in piece.encode()]
            elif self._unknown is not None:
                ids.append(self._unknown)
            start = end[start]
        return ids

    def _merge(self, word: str) -> list[int]:
        """``end[i]``: where the piece that starts at ``i`` ends; 0 where no piece starts.

        Best rank first, leftmost among equals: the queue holds ``rank * length + position``. An entry is stale
        unless the pair that is now at its position still has its rank.
        """
        ids, ranks, length = self._ids, self._ranks, len(word)
        end = list(range(1, length + 1))
        previous = list(range(-1, length - 1))

        def pair(left: int) -> int:
            """The rank of the piece that ``left`` and its right neighbour make, or -1."""
            middle = end[left]
            if middle == 0 or middle == length:
                return -1
            token = ids.get(word[left : end[middle]])
            return -1 if token is None else ranks[token]

        queue = [rank * length + left for left in range(length) if (rank := pair(left)) >= 0]
        heapify(queue)
        while queue:
            rank, left = divmod(heappop(queue), length)
            if pair(left) != rank:
                continue
            middle = end[left]
            right = end[middle]
            end[left], end[middle] = right, 0
            if right < length:
                previous[right] = left
            for start in (left, previous[left]):
                if start >= 0 and (rank := pair(start)) >= 0:
                    heappush(queue, rank * length + start)
        return end


def _byte_ids(vocabulary: Vocabulary) -> list[int]:
    """The ids of <0x00> to <0xFF>, or an empty list where the vocabulary has an unknown token instead."""
    found = [vocabulary.ids.get(f"<0x{byte:02X}>") for byte in range(256)]
    ids = [token for token in found if token is not None and vocabulary.types[token] == TokenType.BYTE]
    if len(ids) == 256:
        return ids
    if vocabulary.unknown is None:
        raise vocabulary.broken(
            f"{PREFIX}tokens has {len(ids)} of the 256 byte tokens, and {PREFIX}unknown_token_id is missing"
        )
    return []
