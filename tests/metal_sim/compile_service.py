"""Compiles Metal source for a process that runs on the fake Metal: requests on standard input, see fake/library.cpp."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from metal_sim import build


def compile_source(mode: str, source: bytes) -> Path:
    """Errors name the source's file: lines of a source that came as text are those of the kept copy."""
    path = build.folder() / f"source-{hashlib.sha256(source).hexdigest()[:20]}.metal"
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
