"""The same model in Q4_0, the format that llama.cpp repacks for its fastest kernels: its best case."""

from __future__ import annotations

import subprocess
from pathlib import Path

CODE = """
import sys
from tools.llama_cpp_engine import quantize
quantize(sys.argv[1], sys.argv[2], "Q4_0", requantize=True)
"""


def to_q4_0(source: Path, folder: Path, llama_python: str) -> Path:
    """Path of the requantized file in `folder`; made by llama.cpp if it is not there yet."""
    target = folder / f"{source.stem}-q4_0.gguf"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        subprocess.run([llama_python, "-c", CODE, str(source), str(part)], check=True)
        part.rename(target)
    return target
