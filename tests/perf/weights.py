"""How much of a file one decode step reads, and how many multiply-adds a token costs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from muser import _muser


@dataclass(frozen=True)
class Weights:
    decode_bytes: int  # all tensors, less an embedding that is only looked up
    matrix_values: int  # weights that one token meets


def measure(path: Path) -> Weights:
    tensors = _muser.GgufFile(str(path)).tensors()
    tied = not any(name == "output.weight" for name, *_ in tensors)
    read = [(shape, nbytes) for name, _, shape, _, nbytes in tensors if tied or name != "token_embd.weight"]
    matrices = [shape for shape, _ in read if len(shape) > 1 and shape[1] > 1]
    return Weights(sum(nbytes for _, nbytes in read), sum(shape[0] * shape[1] for shape in matrices))
