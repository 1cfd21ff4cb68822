"""How much of a file one decode step reads, and how many multiply-adds a token costs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from muser import _muser


@dataclass(frozen=True)
class Weights:
    decode_bytes: int  # all tensors, less an embedding that is only looked up
    body_values: int  # matrix weights that every token meets
    head_values: int  # and those of the output matrix: in a prefill only the last token meets them


def measure(path: Path) -> Weights:
    tensors = {name: (shape, nbytes) for name, _, shape, _, nbytes in _muser.GgufFile(str(path)).tensors()}
    head = "output.weight" if "output.weight" in tensors else "token_embd.weight"
    read = {name: t for name, t in tensors.items() if name == head or name != "token_embd.weight"}
    matrices = {n: shape[0] * shape[1] for n, (shape, _) in read.items() if len(shape) > 1 and shape[1] > 1}
    values = sum(matrices.values())
    return Weights(sum(nbytes for _, nbytes in read.values()), values - matrices[head], matrices[head])
