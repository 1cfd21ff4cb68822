"""Compiles Metal source for a process that runs on the fake Metal: requests on standard input, see fake/library.cpp."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from metal_sim import build

METAL = build.HERE.parent.parent / "metal"


def in_one_piece(path: Path, seen: set[str]) -> str:
    """As the Metal device puts a file and its includes together (csrc/device/metal/sources.cpp)."""
    seen.add(path.name)
    out = []
    for line in path.read_text().splitlines(keepends=True):
        if line.startswith('#include "'):
            name = line.split('"')[1]
            if name not in seen:
                out.append(in_one_piece(path.with_name(name), seen))
        elif not line.startswith("#pragma once"):
            out.append(line)
    return "".join(out)


@cache
def production() -> dict[bytes, Path]:
    """The production kernels: tests that run them one by one build the same files, and each is built once."""
    return {in_one_piece(path, set()).encode(): path for path in METAL.glob("*.metal")}


def compile_source(mode: str, source: bytes) -> Path:
    """Errors name the source's file: lines of a source that came as text are those of the kept copy."""
    path = production().get(source) or build.folder() / f"source-{hashlib.sha256(source).hexdigest()[:20]}.metal"
    if not path.exists():
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_bytes(source)
        temporary.replace(path)
    build.lint(path)
    return build.kernel_library(path, mode)


def serve() -> None:
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while request := requests.readline():
        mode, length = request.decode().split()
        source = requests.read(int(length))
        try:
            answers.write(f"ok {compile_source(mode, source)}\n".encode())
        except (build.MetalSyntaxError, build.CompileError, OSError) as error:
            text = str(error).encode()
            answers.write(f"error {len(text)}\n".encode() + text)
        answers.flush()


if __name__ == "__main__":
    serve()
