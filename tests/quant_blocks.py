"""Random valid blocks of every tensor type that muser reads, for tests and toy models.

The integer part of a block is any bit pattern; only its half-float fields need care (a random half may be
infinite or NaN). ``HALF_FIELDS`` says where they are.
"""

from __future__ import annotations

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

# type -> (byte offset of d, byte offset of the min/offset field or None, its natural size in units of d).
# The natural size centres the values on zero: x = d*q + m with q in 0..15 is centred by m = -7.5*d.
HALF_FIELDS: dict[str, tuple[int, int | None, float]] = {
    "Q4_0": (0, None, 0.0),
    "Q4_1": (0, 2, -7.5),
    "Q5_0": (0, None, 0.0),
    "Q5_1": (0, 2, -15.5),
    "Q8_0": (0, None, 0.0),
    "IQ4_NL": (0, None, 0.0),
    "Q2_K": (80, 82, 1.5),
    "Q3_K": (108, None, 0.0),
    "Q4_K": (0, 2, 7.5),
    "Q5_K": (0, 2, 15.5),
    "Q6_K": (208, None, 0.0),
    "IQ4_XS": (0, None, 0.0),
}
FLOAT_TYPES = ("F32", "F16", "BF16")
ALL_TYPES = FLOAT_TYPES + tuple(HALF_FIELDS)


def block_size(type_name: str) -> tuple[int, int]:
    """(values, bytes) of one block."""
    return GGML_QUANT_SIZES[GGMLQuantizationType[type_name]]


def set_half(blocks: np.ndarray, offset: int, values: np.ndarray) -> None:
    """Writes ``values`` as halves at byte ``offset`` of every row of ``blocks`` (uint8 [n, bytes])."""
    blocks[:, offset : offset + 2] = values.astype("<f2").view(np.uint8).reshape(len(blocks), 2)


def random_blocks(
    type_name: str, n_blocks: int, rng: np.random.Generator, d: np.ndarray, m: np.ndarray
) -> np.ndarray:
    """uint8 [n_blocks, bytes]: random bits with the scales ``d`` and, where the type has one, ``m`` ([n_blocks])."""
    d_at, m_at, _ = HALF_FIELDS[type_name]
    blocks = rng.integers(0, 256, (n_blocks, block_size(type_name)[1]), dtype=np.uint8)
    set_half(blocks, d_at, d)
    if m_at is not None:
        set_half(blocks, m_at, m)
    return blocks


def random_weights(type_name: str, rows: int, cols: int, rng: np.random.Generator, std: float) -> np.ndarray:
    """A random matrix as stored: uint8 [rows, bytes of a row] (float arrays for F32 and F16), of about ``std``."""
    values = rng.normal(0.0, std, (rows, cols)).astype(np.float32)
    if type_name == "F32":
        return values
    if type_name == "F16":
        return values.astype(np.float16)
    if type_name == "BF16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    from gguf.quants import dequantize

    elements, size = block_size(type_name)
    if cols % elements != 0:
        raise ValueError(f"{type_name} needs a multiple of {elements} columns, not {cols}")
    n_blocks = rows * cols // elements
    natural = HALF_FIELDS[type_name][2]
    probe = np.full(64, 2.0**-6)
    probe_rng = np.random.default_rng(0)
    unit = dequantize(
        random_blocks(type_name, 64, probe_rng, probe, probe * natural), GGMLQuantizationType[type_name]
    )
    d = rng.uniform(0.5, 1.5, n_blocks) * rng.choice([-1.0, 1.0], n_blocks) * (std / unit.std() * 2.0**-6)
    return random_blocks(type_name, n_blocks, rng, d, d * natural).reshape(rows, cols // elements * size)
