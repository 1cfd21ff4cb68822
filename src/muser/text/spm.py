"""SentencePiece's BPE (``tokenizer.ggml.model`` = ``llama``): the pair with the best score merges first.

Why not the ``tokenizers`` library: its merges have one rank a pair, SentencePiece has one score a piece, so runs
such as "aaaaa" come out differently, and half a million pairs take seconds to build for Gemma. The merges are in
csrc/text/spm.cpp.
"""

from __future__ import annotations

from .. import _muser
from .metadata import PREFIX
from .token_type import TokenType
from .vocabulary import Vocabulary

SPACE = "\u2581"  # how SentencePiece writes a space


class SpmEncoder:
    """Immutable; any number of threads may encode at once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        if vocabulary.scores is None:
            raise ValueError(f"{vocabulary.model} is not a SentencePiece vocabulary")
        self._native = _muser.SpmEncoder(
            vocabulary.ids,
            vocabulary.ordinary(TokenType.NORMAL, TokenType.UNUSED),
            vocabulary.scores,
            byte_ids=_byte_ids(vocabulary),
            unknown=vocabulary.unknown,
        )

    def encode(self, text: str) -> list[int]:
        """Ids of a text without special tokens. ``text`` must be encodable as UTF-8."""
        return self._native.encode(text)


def _byte_ids(vocabulary: Vocabulary) -> list[int]:
    """The ids of <0x00> to <0xFF>, or an empty list where the vocabulary has an unknown token instead."""
    found = [vocabulary.ids.find(f"<0x{byte:02X}>") for byte in range(256)]
    ids = [token for token in found if token is not None and vocabulary.types[token] == TokenType.BYTE]
    if len(ids) == 256:
        return ids
    if vocabulary.unknown is None:
        raise vocabulary.broken(
            f"{PREFIX}tokens has {len(ids)} of the 256 byte tokens, and {PREFIX}unknown_token_id is missing"
        )
    return []
