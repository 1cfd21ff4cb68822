"""How much of a file one decode step reads, and how many multiply-adds a token costs; which model it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from muser import _muser
from tests.perf.targets import FILE_TYPES


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


def name(path: Path) -> tuple[str, str]:
    """The model's basename and the file's quantization, as its metadata says; "" where it does not."""
    file = _muser.GgufFile(str(path))
    return str(file.get("general.basename", "")), FILE_TYPES.get(file.get("general.file_type", -1), "")
