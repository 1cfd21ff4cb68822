"""The example kernels run against numpy: ``run(library, name, seed)`` raises KernelFault or WrongNumbers."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from .runner import Library


class WrongNumbers(AssertionError):
    pass


def _expect(got: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    if not (np.abs(got - expected) <= tolerance * np.abs(expected).max()).all():
        raise WrongNumbers


def _norm(library: Library, seed: int | None) -> None:
    rng = np.random.default_rng(3)
    x, weight, y = rng.standard_normal((3, 256), "f4"), rng.standard_normal(256, "f4"), np.zeros((3, 256), "f4")
    library.run(
        "rms_norm", [struct.pack("if", 256, 0.1), x, weight, y], grid=[3], group=[128], threadgroup=[128],
        constants={0: np.bool_(True)}, seed=seed,
    )  # fmt: skip
    _expect(y, x / np.sqrt((x.astype("f8") ** 2).mean(1, keepdims=True) + 0.1) * weight, 1e-5)


def _matvec(library: Library, seed: int | None) -> None:
    rng = np.random.default_rng(3)
    rows, blocks = 37, 9
    matrix = np.zeros((rows, blocks), [("scale", "f2"), ("values", "i1", 32)])
    matrix["scale"], matrix["values"] = rng.random((rows, blocks)), rng.integers(-127, 128, (rows, blocks, 32))
    x, y = rng.standard_normal((2, blocks * 32), "f4"), np.full((2, rows), np.nan, "f4")
    library.run("matvec_x2", [struct.pack("ii", rows, blocks), matrix, x, y], grid=[10], group=[32, 4], seed=seed)
    dense = (matrix["values"] * matrix["scale"][..., None].astype("f8")).reshape(rows, -1)
    _expect(y, x @ dense.T, 1e-5)


def _matmul(library: Library, seed: int | None) -> None:
    rng = np.random.default_rng(3)
    m, n, k = 70, 45, 96
    a, b = rng.standard_normal((m, k)).astype("f2"), rng.standard_normal((n, k)).astype("f2")
    c = np.full((m, n), np.nan, "f4")
    library.run("matmul", [struct.pack("iii", m, n, k), a, b, c], grid=[3, 2], group=[128], seed=seed)
    _expect(c, a.astype("f8") @ b.astype("f8").T, 1e-5)


def _misc(library: Library, seed: int | None) -> None:
    rng = np.random.default_rng(3)
    x, bins = rng.integers(0, 1000, 500).astype("u4"), np.zeros(16, "u4")
    library.run("histogram", [x, bins, struct.pack("I", 500)], grid=[512], group=[64], threads=True, seed=seed)
    _expect(bins, np.bincount(x % 16, minlength=16), 0)
    for maxima, first in (([700, 33], 33), ([700, 732], 700)):
        values, best = rng.standard_normal(1000).astype("f4"), np.zeros(1, "u4")
        values[maxima] = 9
        library.run("arg_max", [values, best, struct.pack("I", 1000)], grid=[1], group=[32], seed=seed)
        if best[0] != first:
            raise WrongNumbers


CASES: dict[str, Callable[[Library, int | None], None]] = {
    "norm": _norm,
    "matvec": _matvec,
    "matmul": _matmul,
    "misc": _misc,
}
SEEDS = (None, 1, 2)
