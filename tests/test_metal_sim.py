"""The simulator runs Metal kernels: what they compute, in every mode, and what the translator refuses.

That its checks find faults is tests/test_metal_sim_mutations.py.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from metal_sim import build
from metal_sim.runner import KernelFault, Library
from metal_sim.tools import require_clang

require_clang()
KERNELS = Path(__file__).resolve().parent / "metal_sim" / "kernels"
RNG = np.random.default_rng(1)


@pytest.fixture(scope="module", params=["check", "fast", "fast-math"])
def mode(request) -> str:
    return request.param


def library(name: str, mode: str = "check") -> Library:
    return Library(KERNELS / f"{name}.metal", mode)


def blocks(rows: int, count: int) -> np.ndarray:
    made = np.zeros((rows, count), [("scale", "f2"), ("values", "i1", 32)])
    made["scale"] = RNG.random((rows, count)) * 0.1
    made["values"] = RNG.integers(-127, 128, (rows, count, 32))
    return made


def dequantized(matrix: np.ndarray) -> np.ndarray:
    return (matrix["values"] * matrix["scale"][..., None].astype("f8")).reshape(len(matrix), -1)


@pytest.mark.parametrize("threads", [32, 96, 1024])
def test_rms_norm(mode, threads):
    rows, width = 3, 1024
    x, y = RNG.standard_normal((rows, width), "f4"), np.zeros((rows, width), "f4")
    weight = RNG.standard_normal(width, "f4")
    for w, gain in ((weight, 2.0), (None, None)):
        constants = {0: np.bool_(w is not None)} | ({1: np.float32(gain)} if gain else {})
        buffers = {0: struct.pack("if", width, 1e-5), 1: x, 3: y} | ({2: w} if w is not None else {})
        run = library("norm", mode).run(
            "rms_norm", buffers, grid=[rows], group=[threads], threadgroup=[128], constants=constants
        )
        expected = x / np.sqrt((x.astype("f8") ** 2).mean(1, keepdims=True) + 1e-5)
        expected = expected * (1 if w is None else w) * (gain or 1)
        assert np.abs(y - expected).max() < 1e-5
        assert run.threadgroups == rows and run.threadgroup_bytes == 128


@pytest.mark.parametrize("vectors", [1, 2, 4])
@pytest.mark.parametrize("seed", [None, 5])
def test_matvec(mode, vectors, seed):
    rows, count = 37, 9
    matrix, x = blocks(rows, count), RNG.standard_normal((vectors, count * 32), "f4")
    y = np.full((vectors, rows), np.nan, "f4")
    arguments = [struct.pack("ii", rows, count), matrix, x, y]
    library("matvec", mode).run(f"matvec_x{vectors}", arguments, grid=[10], group=[32, 4], seed=seed)
    expected = x.astype("f8") @ dequantized(matrix).T
    assert np.abs(y - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_matmul_whatever_the_layout_of_a_matrix(mode, seed):
    m, n, k = 70, 45, 96
    a, b = RNG.standard_normal((m, k)).astype("f2"), RNG.standard_normal((n, k)).astype("f2")
    c = np.full((m, n), np.nan, "f4")
    arguments = [struct.pack("iii", m, n, k), a, b, c]
    library("matmul", mode).run("matmul", arguments, grid=[3, 2], group=[128], seed=seed)
    assert np.abs(c - a.astype("f8") @ b.astype("f8").T).max() < 1e-4


def test_another_order_of_summation_gives_other_bits_and_the_same_value():
    matrix, x = blocks(8, 64), RNG.standard_normal((1, 64 * 32), "f4")
    results = []
    for shuffle in (False, True, True):
        y = np.zeros((1, 8), "f4")
        arguments = [struct.pack("ii", 8, 64), matrix, x, y]
        library("matvec", "fast").run(
            "matvec_x1", arguments, grid=[8], group=[32], seed=3, shuffle_reductions=shuffle
        )
        results.append(y)
    assert np.allclose(results[0], results[1], rtol=1e-5)
    assert (results[0] != results[1]).any()
    assert (results[1] == results[2]).all()


def test_atomics(mode):
    x, bins = RNG.integers(0, 1000, 5000).astype("u4"), np.zeros(16, "u4")
    arguments = [x, bins, struct.pack("I", 5000)]
    library("misc", mode).run("histogram", arguments, grid=[5000], group=[256], threads=True, seed=1)
    assert (bins == np.bincount(x % 16, minlength=16)).all()


def test_arg_max(mode):
    x, best = RNG.standard_normal(1000).astype("f4"), np.zeros(1, "u4")
    x[[700, 33]] = 9
    library("misc", mode).run("arg_max", [x, best, struct.pack("I", 1000)], grid=[1], group=[32])
    assert best[0] == 33


def test_simd_functions(mode):
    x, out = RNG.integers(0, 100, 32).astype("i4"), np.zeros((7, 32), "i4")
    library("misc", mode).run("lanes", [x, out], grid=[1], group=[32])
    assert (out[0] == np.cumsum(x)).all() and (out[1] == np.cumsum(x) - x).all()
    assert (out[2].view("u4") == sum(1 << i for i in range(32) if x[i] % 2)).all()
    assert (out[3] == x[0]).all() and (out[4] == np.roll(x, -3)).all()
    assert (out[5].reshape(8, 4) == x.reshape(8, 4).sum(1, keepdims=True)).all()
    assert (out[6] == (7 in x) + 2).all()


def test_conversions(mode):
    packed, out = RNG.standard_normal((5, 4)).astype("f4"), np.zeros((5, 4), "f4")
    library("misc", mode).run("conversions", [packed, out], grid=[5], group=[5], threads=True)
    bits = packed.view("u4")
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    assert (out[:, 0] == packed[:, 3].astype("f2").astype("f4") + (packed[:, 1] > 0.5)).all()
    assert (out[:, 1].view("u4") == bits[:, 0] & 0xFFFF0000).all()
    assert (out[:, 2].view("u4") == nearest[:, 2]).all()
    assert (out[:, 3] == np.clip(packed[:, 1], -1, 1) + 4).all()


@pytest.mark.parametrize("name", ["norm", "matvec", "matmul", "misc"])
def test_lint_passes(name):
    build.lint(KERNELS / f"{name}.metal")


def test_a_report_names_the_line(tmp_path):
    text = (KERNELS / "misc.metal").read_text().replace("i < count", "i <= count").replace("common.h", "c.h")
    (tmp_path / "m.metal").write_text(text)
    (tmp_path / "c.h").write_text((KERNELS / "common.h").read_text())
    arguments = [np.zeros(10, "u4"), np.zeros(16, "u4"), struct.pack("I", 10)]
    with pytest.raises(KernelFault) as fault:
        Library(tmp_path / "m.metal").run("histogram", arguments, grid=[12], group=[4], threads=True)
    line = text.splitlines().index(next(s for s in text.splitlines() if "i <= count" in s)) + 1
    assert fault.value.reports == [
        f"histogram: out-of-bounds read of memory that is not bound at {tmp_path / 'm.metal'}:{line}"
    ]


def test_translator_errors_name_file_and_line(tmp_path):
    (tmp_path / "c.h").write_text("\n\nconstant double x = 1;\n")
    (tmp_path / "m.metal").write_text('#include "c.h"\n')
    with pytest.raises(build.MetalSyntaxError, match=r"c\.h:3: double: Metal has no double"):
        build.kernel_library(tmp_path / "m.metal", "check")
