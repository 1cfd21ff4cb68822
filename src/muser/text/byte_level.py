"""The byte alphabet of GPT-2: every byte has a printable character, so that a vocabulary can be written as text.

Printable Latin-1 bytes stand for themselves, the other 68 for U+0100 and up, in order (OpenAI, gpt-2/src/encoder.py,
`bytes_to_unicode`).
"""

from __future__ import annotations

_SELF = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHER = [byte for byte in range(256) if byte not in _SELF]

CHARACTERS: list[str] = [chr(byte if byte in _SELF else 0x100 + _OTHER.index(byte)) for byte in range(256)]
_BYTES = {ord(character): byte for byte, character in enumerate(CHARACTERS)}

# The bytes that no UTF-8 text contains: overlong leads, and leads beyond U+10FFFF.
NEVER_IN_UTF8 = frozenset((0xC0, 0xC1, *range(0xF5, 0x100)))


def to_bytes(piece: str) -> bytes:
    """The bytes that a piece stands for; a piece with a character outside of the alphabet is plain text."""
    try:
        return bytes(_BYTES[ord(character)] for character in piece)
    except KeyError:
        return piece.encode()
