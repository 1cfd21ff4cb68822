"""Random weights of every tensor type that muser reads, as their blocks lie in a file."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from muser import _muser

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


class Layout(NamedTuple):
    """Everything in a block but its halves may hold any bits; ``shift`` times the scale centres the values."""

    values: int
    size: int
    scale_at: int = -1
    minimum_at: int = -1
    shift: float = 0.0


TYPES: dict[str, Layout] = {
    "F32": Layout(1, 4),
    "F16": Layout(1, 2),
    "BF16": Layout(1, 2),
    "Q4_0": Layout(32, 18, 0),
    "Q4_1": Layout(32, 20, 0, 2, -7.5),
    "Q5_0": Layout(32, 22, 0),
    "Q5_1": Layout(32, 24, 0, 2, -15.5),
    "Q8_0": Layout(32, 34, 0),
    "IQ4_NL": Layout(32, 18, 0),
    "Q2_K": Layout(256, 84, 80, 82, 1.5),
    "Q3_K": Layout(256, 110, 108),
    "Q4_K": Layout(256, 144, 0, 2, 7.5),
    "Q5_K": Layout(256, 176, 0, 2, 15.5),
    "Q6_K": Layout(256, 210, 208),
    "IQ4_XS": Layout(256, 136, 0),
}


def values_of(type_name: str, data: Bytes) -> Floats:
    """float32, one after the other."""
    layout = TYPES[type_name]
    n = data.size // layout.size * layout.values
    values: Floats = _muser.testing.dequantize(type_name, data.tobytes(), n)  # type: ignore[attr-defined]
    return values


def random_blocks(type_name: str, rows: int, cols: int, std: float, rng: np.random.Generator) -> Bytes:
    """uint8: a matrix [rows, cols] of about this standard deviation."""
    layout, n = TYPES[type_name], rows * cols
    if layout.scale_at < 0:
        values = rng.normal(0.0, std, n).astype(np.float32)
        if type_name == "BF16":
            return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        return values.astype(np.float16 if type_name == "F16" else np.float32).view(np.uint8)
    unit = values_of(type_name, _blocks(layout, np.full(64, 2.0**-6), np.random.default_rng(0))).std()
    scales = rng.uniform(0.5, 1.5, n // layout.values) * (std * 2.0**-6 / unit)
    return _blocks(layout, scales, rng).reshape(-1)


def _blocks(layout: Layout, scales: NDArray[np.float64], rng: np.random.Generator) -> Bytes:
    blocks = rng.integers(0, 256, (len(scales), layout.size), dtype=np.uint8)
    for at, halves in ((layout.scale_at, scales), (layout.minimum_at, scales * layout.shift)):
        if at >= 0:
            blocks[:, at : at + 2] = halves.astype("<f2").view(np.uint8).reshape(-1, 2)
    return blocks
