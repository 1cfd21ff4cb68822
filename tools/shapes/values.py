"""Random contents of a tensor, in pieces of bounded size.

Every bit of a quantized block is random except its half-float scales, which are random too but finite and such
that the weights have the tensor's standard deviation: activations then keep their size from layer to layer.
One random stream a tensor, seeded with the file's seed and the tensor's name.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from quant_blocks import FLOAT_TYPES, HALF_FIELDS, block_size, random_blocks, set_half

from tools.shapes.tensors import Tensor

PIECE = 16 << 20  # bytes, about: small beside any model, large beside the cost of a call
_SCALES = 256  # different scales in a tensor: one random byte a block picks its own
_UNIT = 2.0**-6


def pieces(tensor: Tensor, seed: int) -> Iterator[np.ndarray]:
    """The tensor's bytes in order, as arrays of uint8."""
    rng = np.random.default_rng([seed, *tensor.name.encode()])
    make = floats if tensor.type in FLOAT_TYPES else blocks
    yield from make(tensor, rng)


def floats(tensor: Tensor, rng: np.random.Generator) -> Iterator[np.ndarray]:
    step = PIECE // 4
    for first in range(0, tensor.blocks, step):
        count = min(step, tensor.blocks - first)
        values = rng.standard_normal(count, np.float32) * np.float32(tensor.std) + np.float32(tensor.mean)
        if tensor.type == "F16":
            values = values.astype(np.float16)
        elif tensor.type == "BF16":
            values = (values.view(np.uint32) >> 16).astype(np.uint16)
        yield values.view(np.uint8)


def blocks(tensor: Tensor, rng: np.random.Generator) -> Iterator[np.ndarray]:
    d_at, m_at, natural = HALF_FIELDS[tensor.type]
    size = block_size(tensor.type)[1]
    scales = rng.uniform(0.5, 1.5, _SCALES) * rng.choice([-1.0, 1.0], _SCALES)
    scales *= tensor.std / standard_deviation(tensor.type)
    step = PIECE // size
    for first in range(0, tensor.blocks, step):
        count = min(step, tensor.blocks - first)
        # Eight bytes a draw: drawing single bytes takes twice as long.
        words = rng.integers(0, 2**64, (count * size + 7) // 8, np.uint64)
        piece = words.view(np.uint8)[: count * size].reshape(count, size)
        d = scales[rng.integers(0, _SCALES, count, np.uint8)]
        set_half(piece, d_at, d)
        if m_at is not None:
            set_half(piece, m_at, d * natural)
        yield piece.reshape(-1)


def standard_deviation(type_name: str) -> float:
    """Of the values of random blocks whose scale is 1."""
    unit = np.full(1024, _UNIT)
    sample = random_blocks(type_name, 1024, np.random.default_rng(0), unit, unit * HALF_FIELDS[type_name][2])
    return float(dequantize(sample, GGMLQuantizationType[type_name]).std()) / _UNIT
