"""Attention at full Muse Glimmer shapes and the row kernels, on the GPU: the cases of the simulator's tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import metal_kernels
import numpy as np
import test_metal_attention as attention
import test_metal_rows
from metal_kernels import packed, records
from metal_sim.cuda import Library

Check = Callable[..., None]


def use_gpu(folder: Path) -> None:
    """What the simulator's tests dispatch goes to the GPU."""
    libraries: dict[str, Library] = {}

    def run(name: str, kernel: str, mode: str, buffers: list, grid: tuple[int, ...], threads: int, **options: object) -> None:
        library = libraries.setdefault(name, Library(folder / f"{name}.ptx"))
        library.run(kernel, buffers, grid=grid, group=(threads,), **options)

    attention.run = test_metal_rows.run = metal_kernels.run = run


def run_all(folder: Path, check: Check, small: bool) -> None:
    use_gpu(folder)
    for kv in ("f16", "f32", "q8_0"):
        attend(check, kv, 300 if small else 8192)
    for dim in (32, 96, 128):
        stored_q8_0(check, dim)
    norms(folder, check, 6656)


def attend(check: Check, kv: str, keys: int) -> None:
    """32 query heads, 2 kv heads of 128: four decode rows deep in their context, then a chunk."""
    for window in (0, 2048):
        case = attention.Case(32, 2, 128, kv, window, max(keys, 2560 if window else 0), "gpu")
        rows = records("RowInfo", [(0, keys - 1 - 37 * i, i) for i in range(4)])
        query, key, value, angles = attention.inputs(case, 4)
        arguments = {"prefill": False, "prepares": False}
        got, _ = case.run(rows, query, key, value, angles, **arguments)
        worst = np.abs(got - case.expected(rows, query, case.planes)).max()
        check(f"attention {kv}, {keys} keys, window {window}: decode", worst < 2e-5, f"error {worst:.1e}")
        same = True
        for i in range(4):
            one = slice(i, i + 1)
            alone, _ = case.run(rows[one], query[one], key[one], value[one], angles[one], **arguments)
            same = same and alone[0].tobytes() == got[i].tobytes()
        check("  rows bit-identical alone and together", same)

        n = 24
        rows = records("RowInfo", [(0, keys - n + i, 1) for i in range(n)])
        query, key, value, angles = attention.inputs(case, n)
        arguments = {"prefill": True, "prepares": False}
        got, _ = case.run(rows, query, key, value, angles, **arguments)
        worst = np.abs(got - case.expected(rows, query, case.planes)).max()
        check(f"attention {kv}, {keys} keys, window {window}: prefill", worst < 2e-5, f"error {worst:.1e}")
        part = slice(5, 9)
        some, _ = case.run(rows[part], query[part], key[part], value[part], angles[part], **arguments)
        check("  rows bit-identical in other tiles", some.tobytes() == np.ascontiguousarray(got[part]).tobytes())


def stored_q8_0(check: Check, dim: int) -> None:
    name = f"keys and values of {dim} stored in q8_0 are those of float rounded by the definition"
    try:
        test_metal_rows.test_heads_in_q8_0_are_those_of_float_rounded_by_the_definition(dim, "gpu")
        check(name, True)
    except AssertionError as error:
        check(name, False, str(error))


def norms(folder: Path, check: Check, cols: int) -> None:
    rng = np.random.default_rng(4)
    x, branch = rng.standard_normal((2, 4, cols)).astype(np.float32)
    post, following = rng.standard_normal((2, cols)).astype(np.float32)
    out, picked = np.zeros_like(x), np.zeros(4, np.int32)
    args = packed("NormArgs", cols=cols, stride=cols, has_branch=1, has_post=1, has_next=1, post_eps=1e-8, next_eps=1e-5)
    rms = lambda v, eps: v / np.sqrt((v.astype(np.float64) ** 2).mean(1, keepdims=True) + eps)
    expected = rms(x + rms(branch, 1e-8) * post, 1e-5) * following
    metal_kernels.run("norm", "residual_norm", "gpu", [args, x, branch, post, following, out, picked], (4,), 1024)
    worst = np.abs(out - expected).max()
    check(f"residual norm of {cols}", worst < 2e-5, f"error {worst:.1e}")
