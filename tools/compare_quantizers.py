"""muser's quantizers beside llama.cpp's on the weights of real models, both without an importance matrix.

    python -m tools.compare_quantizers LIBGGML MODEL.gguf [MODEL.gguf ...]       the tables of docs/quantize.md
    python -m tools.compare_quantizers LIBGGML MODEL.gguf --tensors              a line for each tensor and type
    python -m tools.compare_quantizers LIBGGML MODEL.gguf --record FILE.npz      a few rows, for tests/test_quantize_error.py

LIBGGML is the libggml-base.so of an installed llama-cpp-python: its ggml_quantize_chunk is what llama-quantize calls. Every
matrix is dequantized, quantized by both sides with every type that its rows fit, and dequantized again; the error
is the root mean square of the difference, and a ratio below 1 means that muser's is the smaller one.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from muser import _muser

Floats = NDArray[np.float32]

# ggml's number of each type, and the values in a block.
TYPES = {"Q4_0": (2, 32), "Q4_1": (3, 32), "Q5_0": (6, 32), "Q5_1": (7, 32), "Q8_0": (8, 32),
         "Q2_K": (10, 256), "Q3_K": (11, 256), "Q4_K": (12, 256), "Q5_K": (13, 256), "Q6_K": (14, 256)}  # fmt: skip
RECORDED = ("blk.0.attn_v.weight", "blk.0.ffn_down.weight", "blk.9.attn_output.weight", "blk.9.ffn_up.weight",
            "blk.15.ffn_down.weight", "token_embd.weight")  # fmt: skip
RECORDED_VALUES = 32768  # of each tensor
PIECE = 1 << 21  # values of a tensor, at most: all of each but the embedding


class Ggml:
    def __init__(self, path: str) -> None:
        self._chunk = ctypes.CDLL(path).ggml_quantize_chunk
        self._chunk.restype = ctypes.c_size_t
        pointer, count = ctypes.c_void_p, ctypes.c_int64
        self._chunk.argtypes = [ctypes.c_int, pointer, pointer, count, count, count, pointer]

    def quantize(self, type_name: str, values: Floats) -> bytes:
        """Blocks of the rows [rows, columns]."""
        number, _ = TYPES[type_name]
        blocks = ctypes.create_string_buffer(values.size * 2)
        size = self._chunk(number, values.ctypes.data, blocks, 0, *values.shape, None)
        return blocks.raw[:size]


def square_error(type_name: str, blocks: bytes, values: Floats) -> float:
    back = _muser.testing.dequantize(type_name, blocks, values.size)
    return float(np.sum((back.astype(np.float64) - values.reshape(-1)) ** 2))


def matrices(path: Path) -> Iterator[tuple[str, Floats]]:
    """Name and dequantized float32 [rows, columns] of each matrix, a large one cut after PIECE."""
    file = _muser.GgufFile(path)
    for name, kind, shape, _, _ in file.tensors():
        if len(shape) > 1:
            rows = max(1, min(int(np.prod(shape[1:])), PIECE // shape[0]))
            count = rows * shape[0]
            whole = file.tensor_data(name)
            size = len(whole) * count // int(np.prod(shape))
            yield name, _muser.testing.dequantize(kind, whole[:size].tobytes(), count).reshape(rows, shape[0])


def errors(ggml: Ggml, values: Floats) -> dict[str, tuple[float, float]]:
    """Type -> root mean square error of muser and of llama.cpp."""
    found = {}
    for name, (_, elements) in TYPES.items():
        if values.shape[1] % elements == 0:
            ours = square_error(name, _muser.testing.quantize(name, values.reshape(-1)), values)
            theirs = square_error(name, ggml.quantize(name, values), values)
            found[name] = (ours / values.size) ** 0.5, (theirs / values.size) ** 0.5
    return found


def ratio(ours: float, theirs: float, size: float) -> float:
    """Errors below a millionth of the weights are rounding of a file that already lay on this grid."""
    return (ours + 1e-6 * size) / (theirs + 1e-6 * size)


def compare(ggml: Ggml, path: Path, each: bool) -> None:
    ratios: dict[str, list[tuple[float, str]]] = {}
    for name, values in matrices(path):
        size = float(np.sqrt(np.mean(values.astype(np.float64) ** 2)))
        for kind, (ours, theirs) in errors(ggml, values).items():
            ratios.setdefault(kind, []).append((ratio(ours, theirs, size), name))
            if each:
                print(f"{name:<34} {kind:<7} {ours / size:.5f} {theirs / size:.5f} {ratios[kind][-1][0]:.4f}", flush=True)
    print(f"\n{path.stem}\n\n| type | tensors | smallest ratio | median | largest | largest at |\n| --- | --- | --- | --- | --- | --- |")
    for kind, found in ratios.items():
        found.sort()
        low, middle, high = found[0][0], found[len(found) // 2][0], found[-1]
        print(f"| {kind} | {len(found)} | {low:.3f} | {middle:.3f} | {high[0]:.3f} | {high[1]} |", flush=True)


def record(ggml: Ggml, paths: list[Path], target: Path) -> None:
    """Rows as float16, which both sides then quantize as they are stored, and llama.cpp's error of each type."""
    found: dict[str, NDArray[np.generic]] = {}
    for path in paths:
        for name, values in matrices(path):
            if name in RECORDED:
                kept = values[: max(1, RECORDED_VALUES // values.shape[1])].astype(np.float16)
                found[f"{path.stem}/{name}"] = kept
                for kind, (_, theirs) in errors(ggml, kept.astype(np.float32)).items():
                    found[f"{path.stem}/{name}/{kind}"] = np.float64(theirs)
    np.savez_compressed(target, **found)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ggml", metavar="LIBGGML")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--tensors", action="store_true")
    parser.add_argument("--record", type=Path)
    a = parser.parse_args()
    ggml = Ggml(a.ggml)
    if a.record:
        record(ggml, a.models, a.record)
    else:
        for path in a.models:
            compare(ggml, path, a.tensors)


if __name__ == "__main__":
    sys.exit(main())
