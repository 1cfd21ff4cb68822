"""Encrypted bodies: ChaCha20-Poly1305 (RFC 8439) over pieces, with a key derived for each file by HKDF-SHA256.

    16 bytes  salt, random: the file's key is HKDF(caller's key, salt)
    pieces    of at most 1 MiB of text and 16 bytes of tag; piece i has the nonce i (96 bits, little-endian), and whether it
              is the last one is authenticated with it, so that pieces cannot be dropped, doubled or reordered

Needs the ``cryptography`` package: ``pip install "muser[encryption]"``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from muser.errors import ParameterError, SessionFileError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

KEY_BYTES = 32
_SALT_BYTES, _TAG_BYTES, _PIECE = 16, 16, 1 << 20


def checked_key(key: object) -> bytes | None:
    """None, or 32 bytes. ParameterError("key") for anything else, and where the package is missing. Never shows a key."""
    if key is None:
        return None
    if not isinstance(key, (bytes, bytearray, memoryview)) or len(key) != KEY_BYTES:
        raise ParameterError(f"key must be {KEY_BYTES} bytes or None", parameter="key")
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ParameterError(
            'key needs the cryptography package: pip install "muser[encryption]"', parameter="key"
        ) from None
    return bytes(key)


def encrypt(text: bytes, key: bytes) -> list[bytes]:
    salt = os.urandom(_SALT_BYTES)
    cipher = _cipher(key, salt)
    n = max(1, -(-len(text) // _PIECE))
    return [salt] + [
        cipher.encrypt(nonce, text[i * _PIECE : (i + 1) * _PIECE], last) for i, nonce, last in _labels(n)
    ]


def decrypt(body: memoryview, key: bytes, refuse: Callable[[str], SessionFileError]) -> memoryview:
    from cryptography.exceptions import InvalidTag

    sealed = body[_SALT_BYTES:]
    step = _PIECE + _TAG_BYTES
    n = -(-len(sealed) // step)
    size = len(sealed) - n * _TAG_BYTES
    if n < 1 or size < 0:
        raise refuse("is encrypted and too short")
    cipher = _cipher(key, body[:_SALT_BYTES].tobytes())
    text = bytearray(size)
    for i, nonce, last in _labels(n):
        try:
            piece = cipher.decrypt(nonce, sealed[i * step : (i + 1) * step], last)
        except InvalidTag:
            raise refuse("cannot be decrypted: another key, or it was changed") from None
        text[i * _PIECE : i * _PIECE + len(piece)] = piece
    return memoryview(text)


def _labels(n: int) -> Iterator[tuple[int, bytes, bytes]]:
    for i in range(n):
        yield i, i.to_bytes(12, "little"), b"last" if i == n - 1 else b"more"


def _cipher(key: bytes, salt: bytes) -> ChaCha20Poly1305:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return ChaCha20Poly1305(HKDF(SHA256(), KEY_BYTES, salt, b"muser session file").derive(key))
