"""Dispatches the kernels of metal/ one by one, as the Metal device does, over numpy arrays (simulated: metal_sim).

``packed("NormArgs", cols=64)`` packs an argument struct; its layout is read from metal/args.h itself.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from metal_sim.runner import Library
from metal_sim.tools import require_clang

require_clang()

METAL = Path(__file__).resolve().parent.parent / "metal"
EXACT_MODES = ("fast", "check")
MODES = (*EXACT_MODES, "fast-math")  # the device asks for none of it; results must stay within tolerance all the same
HALVES = 0x64006400  # kHalves of metal/weight.h, an argument of matvec
_ONE_RUN = ("F32", "F16", "BF16", "Q8_0")  # whose units are one run
_SCALARS = {"int32_t": "<i4", "uint32_t": "<u4", "float": "<f4"}


@cache
def structs() -> dict[str, np.dtype]:
    found: dict[str, np.dtype] = {}
    for name, body in re.findall(r"struct (\w+) \{(.*?)\};", (METAL / "args.h").read_text(), re.DOTALL):
        fields: list[Any] = []
        for kind, field, count in re.findall(r"^\s*(\w+) (\w+)(?:\[(\d+)\])?;", body, re.MULTILINE):
            scalar = found[kind] if kind in found else _SCALARS[kind]
            fields.append((field, scalar, (int(count),)) if count else (field, scalar))
        found[name] = np.dtype(fields)
    return found


def packed(struct: str, **values: Any) -> bytes:
    """The bytes of one struct; fields that are not given are zero. A nested struct is given as bytes."""
    record = np.zeros(1, structs()[struct])
    for field, value in values.items():
        if isinstance(value, bytes):
            record[field] = np.frombuffer(value, record.dtype[field])
        elif isinstance(value, list):
            record[field][0, : len(value)] = value
        else:
            record[field] = value
    return record.tobytes()


def records(struct: str, rows: list[tuple[int, ...]]) -> np.ndarray:
    return np.array(rows, structs()[struct])


@cache
def library(name: str, mode: str) -> Library:
    return Library(METAL / f"{name}.metal", mode)


def run(name: str, kernel: str, mode: str, buffers: list[Any], grid: tuple[int, ...], threads: int, **options: Any) -> None:
    """``grid`` threadgroups of ``threads`` threads. Lanes and threadgroups run in a random order under the checker."""
    seed = 1 if mode == "check" else None
    options["shuffle_reductions"] = mode == "fast-math"
    library(name, mode).run(kernel, buffers, grid=grid, group=(threads,), seed=seed, **options)


def lane_order(n: int) -> np.ndarray:
    """Index of value i of a row in a matvec's input (metal/common.h)."""
    i = np.arange(n)
    run = i // 16 % 32
    return i // 512 * 512 + i // 4 % 4 * 128 + (run ^ run >> 1) * 4 + i % 4


def in_lane_order(x: np.ndarray) -> np.ndarray:
    """float32 [rows, cols] -> [rows, cols rounded up to 512]; what no lane reads is NaN."""
    out = np.full((len(x), -(-x.shape[1] // 512) * 512), np.nan, np.float32)
    out[:, lane_order(x.shape[1])] = x
    return out


def matvec_outputs(quant: str, width: int) -> int:
    """Of a SIMD-group of matvec, as in csrc/device/metal/product_recorder.mm."""
    return 4 if quant == "Q8_0" and width == 4 else 2


def staged_halves(rows: int) -> list[int]:
    """The rows of each half of a matrix that matvec_staged multiplies alone, and where the second begins."""
    second = rows // 4 * 2
    return [rows - second, second]


def staged_outputs(quant: str, width: int) -> int:
    """Of each matrix of a SIMD-group of matvec_staged, as in csrc/device/metal/product_recorder.mm."""
    return (1 if width == 1 else 2) * (1 if quant in _ONE_RUN else 2)


def from_lane_order(x: np.ndarray, cols: int) -> np.ndarray:
    return x[:, lane_order(cols)]
