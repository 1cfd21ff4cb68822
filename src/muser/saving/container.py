"""The file around what is saved: written whole or not at all, read whole or refused.

    8 bytes   b"MUSERSES"
    uint32    version of everything in the file, 1
    uint32    flags; bit 0: encrypted
    uint64    bytes of the body
    body      (encryption.py has the form of an encrypted one)
    32 bytes  SHA-256 of all before

A body is ``uint32 n``, a JSON object of n bytes, and the blobs that its key "blobs" lists as [name, bytes]. All numbers
are little-endian.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import struct
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from muser.errors import FileAccessError, FileMissingError, SessionFileError
from muser.saving import encryption

MAGIC = b"MUSERSES"
VERSION = 1
_ENCRYPTED = 1
_HEAD = struct.Struct("<8sIIQ")
_DIGEST_BYTES = 32


def write(
    path: str, record: Mapping[str, Any], blobs: Mapping[str, memoryview | bytes], key: bytes | None
) -> None:
    """Replaces ``path`` by a new file, readable by its owner only, in one step that survives a crash.

    Raises FileAccessError; what was there before is there still then.
    """
    header = json.dumps({**record, "blobs": [[name, len(blob)] for name, blob in blobs.items()]}).encode()
    parts: Sequence[memoryview | bytes] = [struct.pack("<I", len(header)), header, *blobs.values()]
    flags = 0
    if key is not None:
        flags |= _ENCRYPTED
        parts = encryption.encrypt(b"".join(parts), key)
    parts = [_HEAD.pack(MAGIC, VERSION, flags, sum(len(part) for part in parts)), *parts]
    digest = hashlib.sha256()
    try:
        with contextlib.suppress(FileNotFoundError):
            _refuse_special(path, os.stat(path))  # the rename would put a file in the place of /dev/null
        folder = os.path.dirname(os.path.abspath(path))
        handle, temporary = tempfile.mkstemp(prefix=".muser-", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                for part in parts:
                    digest.update(part)
                    file.write(part)
                file.write(digest.digest())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_folder(folder)
    except OSError as error:
        if isinstance(error, FileAccessError):
            raise
        raise _refused(path, error) from None


def read(path: str, key: bytes | None) -> tuple[dict[str, Any], dict[str, memoryview]]:
    """The record and the blobs. Allocates no more than the size of the file, and once more that if it is encrypted.

    Raises SessionFileError for whatever is no whole, unchanged file of this version, FileAccessError.
    """
    data = _whole_file(path)

    def refuse(message: str, offset: int | None = None) -> SessionFileError:
        return SessionFileError(f"{path}: {message}", path=path, offset=offset)

    if len(data) < _HEAD.size + _DIGEST_BYTES or data[:8] != MAGIC:
        raise refuse("is no session file", 0)
    _, version, flags, size = _HEAD.unpack(data[: _HEAD.size])
    if version != VERSION:
        raise refuse(f"has version {version}; this version of muser reads {VERSION}", 8)
    if size != len(data) - _HEAD.size - _DIGEST_BYTES:
        raise refuse(
            f"is {len(data)} bytes long, and its head says {size + _HEAD.size + _DIGEST_BYTES}: it was cut or continued",
            16,
        )
    if hashlib.sha256(data[:-_DIGEST_BYTES]).digest() != data[-_DIGEST_BYTES:]:
        raise refuse("is damaged: its checksum does not fit")
    if flags not in (0, _ENCRYPTED):
        raise refuse(f"has unknown flags {flags:#x}", 12)
    if bool(flags & _ENCRYPTED) != (key is not None):
        raise refuse("is encrypted and needs a key" if flags else "is not encrypted, and a key was given", 12)
    body = data[_HEAD.size : -_DIGEST_BYTES]
    if key is not None:
        body = encryption.decrypt(body, key, refuse)
    return _take_apart(body, refuse)


def _take_apart(body: memoryview, refuse: Any) -> tuple[dict[str, Any], dict[str, memoryview]]:
    length = int.from_bytes(body[:4], "little")
    if len(body) < 4 or length > len(body) - 4:
        raise refuse("has a header that is longer than the file")
    try:
        record = json.loads(body[4 : 4 + length].tobytes())
        listed = [(str(name), int(size)) for name, size in record["blobs"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise refuse("has a header that cannot be read") from None
    blobs, start = {}, 4 + length
    for name, size in listed:
        if not 0 <= size <= len(body) - start:
            raise refuse(f"lists {size} bytes of {name!r}, more than it has")
        blobs[name] = body[start : start + size]
        start += size
    if start != len(body):
        raise refuse(f"has {len(body) - start} bytes that it does not list")
    return record, blobs


def _whole_file(path: str) -> memoryview:
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            _refuse_special(path, status)
            data = bytearray(status.st_size)
            return memoryview(data)[: file.readinto(data)]
    except OSError as error:
        if isinstance(error, FileAccessError):
            raise
        raise _refused(path, error) from None


def _open_at_once(path: str, flags: int) -> int:
    """A pipe would wait for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _refuse_special(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):  # directories have their own error
        raise FileAccessError(f"{path}: is not a regular file", path=path, filename=path)


def _sync_folder(folder: str) -> None:
    """So that the new name survives a crash as well."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refused(path: str, error: OSError) -> FileAccessError:
    kind = FileMissingError if isinstance(error, FileNotFoundError) else FileAccessError
    return kind(
        f"{path}: {error.strerror}", path=path, filename=path, errno=error.errno, strerror=error.strerror
    )
