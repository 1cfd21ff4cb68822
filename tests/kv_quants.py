"""The definition of keys and values in q8_0 (csrc/device/device.h) in numpy, with the order of sums that decides the last bit."""

from __future__ import annotations

import numpy as np


def rotated(x: np.ndarray) -> np.ndarray:
    """float32 [..., n]: sums and differences of neighbours, then of pairs, up to the largest power of two that divides n; then
    one factor that makes the whole its own inverse."""
    n = x.shape[-1]
    block = n & -n
    half = 1
    while half < block:
        pairs = x.reshape(*x.shape[:-1], n // (2 * half), 2, half)
        a, b = pairs[..., 0, :], pairs[..., 1, :]
        x = np.stack([a + b, a - b], axis=-2).reshape(x.shape)
        half *= 2
    return x * (x.dtype.type(1) / np.sqrt(x.dtype.type(block)))


def quantized(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int8 [..., n] and float16 [..., n / 32] of float32 [..., n]."""
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    scales = (np.abs(blocks).max(axis=-1) / np.float32(127)).astype(np.float16)
    quants = np.rint(blocks * (np.float32(1) / scales.astype(np.float32))[..., None]).astype(np.int8)
    return quants.reshape(x.shape), scales


def rows(x: np.ndarray) -> bytes:
    """Heads [..., n] as they leave a device: each head's int8, then its scales."""
    quants, scales = quantized(rotated(x))
    return np.concatenate([quants.view(np.uint8), scales.view(np.uint8)], axis=-1).tobytes()


def values(quants: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """float64: what they stand for, not rotated any more."""
    return rotated(quants.astype(np.float64) * np.repeat(scales.astype(np.float64), 32, axis=-1))
