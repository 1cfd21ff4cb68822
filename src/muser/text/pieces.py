"""The bytes of one token: what it adds to the text."""

from __future__ import annotations

from . import byte_level
from .spm import SPACE
from .token_type import TokenType
from .vocabulary import Vocabulary


def piece_bytes(vocabulary: Vocabulary, token: int) -> bytes:
    text, kind = vocabulary.text(token), vocabulary.types[token]
    if kind == TokenType.BYTE:
        return bytes((int(text[3:5], 16),))
    if token in vocabulary.control or kind == TokenType.USER_DEFINED:
        return text.encode()
    if vocabulary.model == "llama":
        return text.replace(SPACE, " ").encode()
    return byte_level.to_bytes(text)
