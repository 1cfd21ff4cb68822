"""Every kernel on the GPU: error against float64, rows bit-identical over repeats. See README.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import gguf
import numpy as np
from metal_kernels import from_lane_order
from metal_sim import cuda
from metal_sim.cuda import Library, Memory
from quant_blocks import ALL_TYPES, random_weights

from . import bandwidth, rows
from .shapes import Product, registers

PTX = Path(__file__).resolve().parent.parent.parent / "build" / "gpu"
FULL, SMALL = (19968, 6656), (75, 768)  # a Muse Glimmer FFN matrix; a shape with tails
REPEATS = 20
failures: list[str] = []


def check(what: str, holds: bool, detail: str = "") -> None:
    print(f"{'ok    ' if holds else 'FAILED'} {what} {detail}", flush=True)
    if not holds:
        failures.append(what)


def stored(quant: str, shape: tuple[int, int]) -> np.ndarray:
    """Random blocks: a few rows, repeated, so that making them takes no time."""
    few = random_weights(quant, min(shape[0], 64), shape[1], np.random.default_rng(1), 0.05)
    few = np.ascontiguousarray(few).view(np.uint8).reshape(len(few), -1)
    return np.ascontiguousarray(np.tile(few, (-(-shape[0] // len(few)), 1))[: shape[0]])


def values(blocks: np.ndarray, quant: str, cols: int) -> np.ndarray:
    kind = gguf.GGMLQuantizationType[quant]
    typed = blocks.view({"F32": np.float32, "F16": np.float16}.get(quant, np.uint8))
    return gguf.quants.dequantize(typed, kind).reshape(len(blocks), cols).astype(np.float64)


def error(got: np.ndarray, x: np.ndarray, w: np.ndarray) -> float:
    """Largest, in units of the sum of the absolute products."""
    few = got[:, : len(w)].astype(np.float64)
    return float((np.abs(few - x.astype(np.float64) @ w.T) / (np.abs(x).astype(np.float64) @ np.abs(w).T)).max())


def fetched(out: Memory, shape: tuple[int, int]) -> np.ndarray:
    cuda.synchronize()
    array = np.empty(shape, np.float32)
    out.get(array)
    return array


def matvecs(product: Product, ptx: Path, quant: str, kind: str, x: np.ndarray, w: np.ndarray) -> None:
    libraries = {n: Library(ptx, registers(quant, n, kind)) for n in (1, 2, 3, 4)}
    alone = []
    for i in range(4):
        (launch,), out = product.matvecs(libraries[1], quant, x[i : i + 1], kind)
        launch()
        alone.append(fetched(out, (1, product.rows))[0])
    same = True
    for width in (1, 2, 3, 4):
        (launch,), out = product.matvecs(libraries[width], quant, x[:width], kind)
        for _ in range(REPEATS):
            launch()
            got = fetched(out, (width, product.rows))
            same = same and all(got[i].tobytes() == alone[i].tobytes() for i in range(width))
    worst = error(np.stack(alone), x, w)
    check(f"{quant} matvec {kind} ({product.rows}, {product.cols})", worst < 3e-6, f"error {worst:.1e}")
    check(f"{quant} rows bit-identical at widths 1-4, {REPEATS} repeats", same)


def products(quant: str, shape: tuple[int, int]) -> None:
    name, ptx = quant.lower(), PTX / f"{quant.lower()}.ptx"
    library = Library(ptx)
    blocks = stored(quant, shape)
    w = values(blocks[:64], quant, shape[1])
    product = Product(blocks, shape[1])
    x = np.random.default_rng(2).standard_normal((4, shape[1])).astype(np.float32)
    for kind in ("", "divided", "staged"):
        matvecs(product, ptx, quant, kind, x, w)

    many = np.random.default_rng(3).standard_normal((67, shape[1])).astype(np.float32)
    results = {}
    for tile in (8, 16, 32):
        launch, out = product.matmul(library, f"matmul_{name}", many, tile)
        launch()
        results[tile] = fetched(out, (len(many), shape[0]))
    worst = error(results[32], many, w)
    check(f"{quant} matmul {shape}", worst < 3e-6, f"error {worst:.1e}")
    check(f"{quant} tiles bit-identical", results[8].tobytes() == results[16].tobytes() == results[32].tobytes())


def glus(quant: str, shape: tuple[int, int]) -> None:
    """silu(gate) * up of a matrix with itself, whose values are known by now: rows alone and together."""
    library, one = Library(PTX / f"{quant.lower()}.ptx"), Library(PTX / f"{quant.lower()}.ptx", registers(quant, 1, "staged"))
    blocks = stored(quant, shape)
    w = values(blocks[:64], quant, shape[1])
    product = Product(blocks, shape[1], copies=2)
    x = np.random.default_rng(5).standard_normal((4, shape[1])).astype(np.float32)

    def run(library: Library, x: np.ndarray) -> np.ndarray:
        (launch,), out = product.glus(library, quant, x)
        launch()
        return from_lane_order(fetched(out, (len(x), -(-shape[0] // 512) * 512)), shape[0])

    alone = np.concatenate([run(one, x[i : i + 1]) for i in range(4)])
    a = x.astype(np.float64) @ w.T
    expected = a / (1 + np.exp(-a)) * a
    worst = float((np.abs(alone[:, : len(w)] - expected) / np.abs(expected).max()).max())
    check(f"{quant} glu {shape}", worst < 1e-5, f"error {worst:.1e}")
    same = all(run(library, x[:n]).tobytes() == alone[:n].tobytes() for n in (1, 2, 3, 4) for _ in range(REPEATS))
    check(f"{quant} glu rows bit-identical at widths 1-4, {REPEATS} repeats", same)


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--small", action="store_true", help="small shapes, no timing")
    options.add_argument("--no-timing", action="store_true")
    chosen = options.parse_args()
    for quant in ALL_TYPES:
        products(quant, SMALL if chosen.small else FULL)
        glus(quant, SMALL if chosen.small else FULL)
    rows.run_all(PTX, check, chosen.small)
    if not (chosen.small or chosen.no_timing):
        bandwidth.tables(PTX, stored)
    print(f"\n{len(failures)} checks failed" if failures else "\nevery check passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
