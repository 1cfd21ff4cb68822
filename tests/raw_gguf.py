"""GGUF files byte by byte, right or deliberately wrong. Shares nothing with the reader or with GGUFWriter.

    raw = Raw().key("general.name", STRING, "x").tensor("w", F32, [4], bytes(16))
    raw.bytes()

Every field that a test wants to break can be given: counts, version, magic, offsets, sizes, types.
"""

from __future__ import annotations

import struct
from typing import Any

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B", U64: "<Q", I64: "<q",
           F64: "<d"}  # fmt: skip
T_F32, T_Q4_0, T_Q4_K = 0, 2, 12  # tensor types


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return u64(len(raw)) + raw


def value_bytes(kind: int, value: Any) -> bytes:
    """``value`` of type ``kind``; an array is (element kind, list)."""
    if kind == STRING:
        return text(value)
    if kind == ARRAY:
        element, items = value
        return u32(element) + u64(len(items)) + b"".join(value_bytes(element, item) for item in items)
    return struct.pack(FORMATS[kind], value)


class Raw:
    def __init__(self, version: int = 3, magic: bytes = b"GGUF", alignment: int = 32) -> None:
        self.magic, self.version, self.alignment = magic, version, alignment
        self.entries: list[bytes] = []
        self.records: list[bytes] = []
        self.data = b""
        self.n_entries: int | None = None
        self.n_tensors: int | None = None

    def key(self, name: str | bytes, kind: int, value: Any) -> Raw:
        return self.entry(text(name) + u32(kind) + value_bytes(kind, value))

    def entry(self, raw: bytes) -> Raw:
        self.entries.append(raw)
        return self

    def tensor(self, name: str | bytes, kind: int, shape: list[int], data: bytes = b"", offset: int | None = None,
               n_dims: int | None = None) -> Raw:  # fmt: skip
        """Appends the tensor and its data; with ``offset``, the record points there instead."""
        at = len(self.data) if offset is None else offset
        dims = u32(len(shape) if n_dims is None else n_dims) + b"".join(u64(extent) for extent in shape)
        self.records.append(text(name) + dims + u32(kind) + u64(at))
        self.data += data + bytes(-len(data) % self.alignment)
        return self

    def header(self) -> bytes:
        """Everything before the padding of the data section."""
        n_tensors = len(self.records) if self.n_tensors is None else self.n_tensors
        n_entries = len(self.entries) if self.n_entries is None else self.n_entries
        front = self.magic + u32(self.version) + u64(n_tensors) + u64(n_entries)
        return front + b"".join(self.entries) + b"".join(self.records)

    def entry_at(self, index: int) -> int:
        """Byte offset of a metadata entry."""
        return 24 + sum(len(entry) for entry in self.entries[:index])

    def record_at(self, index: int) -> int:
        """Byte offset of a tensor's record."""
        return self.entry_at(len(self.entries)) + sum(len(record) for record in self.records[:index])

    def bytes(self) -> bytes:
        header = self.header()
        return header + (bytes(-len(header) % self.alignment) + self.data if self.records else b"")
