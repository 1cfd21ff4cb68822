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
    last_values: int = 0  # of body_values, those behind the last layer's keys and values: likewise

    def prefill_values(self, n: int) -> float:
        """That a token of a prompt of n meets, on average."""
        once = self.last_values + self.head_values
        return self.body_values - self.last_values + once / n


def measure(path: Path) -> Weights:
    tensors = {name: (shape, nbytes) for name, _, shape, _, nbytes in _muser.GgufFile(str(path)).tensors()}
    head = "output.weight" if "output.weight" in tensors else "token_embd.weight"
    read = {name: t for name, t in tensors.items() if name == head or name != "token_embd.weight"}
    matrices = {n: shape[0] * shape[1] for n, (shape, _) in read.items() if len(shape) > 1 and shape[1] > 1}
    values = sum(matrices.values())
    layers = {int(n.split(".")[1]) for n in matrices if n.startswith("blk.")}
    kept = ("attn_k.weight", "attn_v.weight")
    last = sum(v for n, v in matrices.items() if n.startswith(f"blk.{max(layers)}.") and not n.endswith(kept))
    return Weights(sum(nbytes for _, nbytes in read.values()), values - matrices[head], matrices[head], last)


def name(path: Path) -> tuple[str, str]:
    """The model's basename and the file's quantization, as its metadata says; "" where it does not."""
    file = _muser.GgufFile(str(path))
    return str(file.get("general.basename", "")), FILE_TYPES.get(file.get("general.file_type", -1), "")
