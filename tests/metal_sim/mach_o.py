"""What an arm64 macOS library takes from others: the symbols that its symbol table leaves open."""

from __future__ import annotations

import struct
from pathlib import Path

_SYMTAB = 0x2
_EXTERNAL, _TYPE = 0x01, 0x0E


def undefined(library: Path) -> set[str]:
    data = library.read_bytes()
    at, table = 32, (0, 0, 0, 0)
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        command, size = struct.unpack_from("<II", data, at)
        if command == _SYMTAB:
            table = struct.unpack_from("<IIII", data, at + 8)
        at += size
    symbols, count, strings, _ = table
    found = set()
    for i in range(count):
        name, kind = struct.unpack_from("<IB", data, symbols + 16 * i)
        if kind & _EXTERNAL and not kind & _TYPE:
            found.add(data[strings + name : data.index(b"\0", strings + name)].decode())
    return found
