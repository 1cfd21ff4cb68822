"""Every kernel on the GPU: error against float64, rows bit-identical over repeats, bandwidth. See README.md."""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import gguf
import numpy as np
from metal_sim import cuda
from metal_sim.cuda import Launch, Library, Memory
from quant_blocks import ALL_TYPES, random_weights

from . import rows
from .shapes import OUTPUTS, Product

PTX = Path(__file__).resolve().parent.parent.parent / "build" / "gpu"
FULL, DOWN, SMALL = (19968, 6656), (6656, 19968), (75, 768)  # Muse Glimmer FFN matrices; a shape with tails
REPEATS = 20
REGISTERS = {1: 72}  # at most of a thread, by width; else Library's. Measured.
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


def products(quant: str, shape: tuple[int, int]) -> None:
    name, ptx = quant.lower(), PTX / f"{quant.lower()}.ptx"
    library, one = Library(ptx), Library(ptx, REGISTERS[1])
    blocks = stored(quant, shape)
    w = values(blocks[:64], quant, shape[1])
    product = Product(blocks, shape[1])
    x = np.random.default_rng(2).standard_normal((4, shape[1])).astype(np.float32)
    alone = []
    for i in range(4):
        (launch,), out = product.matvecs(one, f"matvec_{name}", x[i : i + 1])
        launch()
        alone.append(fetched(out, (1, shape[0]))[0])
    same = True
    for width in (1, 2, 3, 4):
        (launch,), out = product.matvecs(library, f"matvec_{name}", x[:width])
        for _ in range(REPEATS):
            launch()
            got = fetched(out, (width, shape[0]))
            same = same and all(got[i].tobytes() == alone[i].tobytes() for i in range(width))
    worst = error(np.stack(alone), x, w)
    check(f"{quant} matvec {shape}", worst < 3e-6, f"error {worst:.1e}")
    check(f"{quant} rows bit-identical at widths 1-4, {REPEATS} repeats", same)

    many = np.random.default_rng(3).standard_normal((67, shape[1])).astype(np.float32)
    results = {}
    for tile in (8, 16, 32):
        launch, out = product.matmul(library, f"matmul_{name}", many, tile)
        launch()
        results[tile] = fetched(out, (len(many), shape[0]))
    worst = error(results[32], many, w)
    check(f"{quant} matmul {shape}", worst < 3e-6, f"error {worst:.1e}")
    check(f"{quant} tiles bit-identical", results[8].tobytes() == results[16].tobytes() == results[32].tobytes())


def seconds(run: Callable[[], None], repeats: int = 5) -> float:
    run()
    cuda.synchronize()
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return sorted(taken)[len(taken) // 2]


def copy_bandwidth() -> float:
    """Bytes read and written a second by the driver's own copy."""
    size, times, driver = 1 << 30, 8, cuda._driver()
    a, b = (Memory(np.zeros(size, np.uint8)) for _ in range(2))

    def run() -> None:
        for _ in range(times):
            driver.cuMemcpyDtoD_v2(b.address, a.address, ctypes.c_size_t(size))

    return 2 * size * times / seconds(run)


def all_of(launches: Sequence[Launch], rounds: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(rounds):
            for launch in launches:
                launch()

    return run


def bandwidth(quant: str, peak: float, file: str, outputs: int = OUTPUTS, shape: tuple[int, int] = FULL) -> None:
    """GB/s of weights at widths 1-4, its share of the copy bandwidth, and the gain in rows a second over width 1."""
    libraries, blocks = {n: Library(PTX / f"{file}.ptx", n) for n in (128, *REGISTERS.values())}, stored(quant, shape)
    product = Product(blocks, shape[1], copies=max(2, int(6e8 / blocks.nbytes)))
    line, first = f"| {file}{'' if shape == FULL else ' ' + str(shape)} |", 0.0
    for width in (1, 2, 3, 4):
        x = np.random.default_rng(2).standard_normal((width, shape[1])).astype(np.float32)
        launches, _ = product.matvecs(libraries[REGISTERS.get(width, 128)], f"matvec_{quant.lower()}", x, outputs)
        taken = seconds(all_of(launches, 4)) / (4 * len(launches))
        first = first or taken
        line += f" {blocks.nbytes / taken / 1e9:.0f} ({blocks.nbytes / taken / peak:.0%}, {width * first / taken:.2f}x) |"
    print(line, flush=True)


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--small", action="store_true", help="small shapes, no timing")
    options.add_argument("--no-timing", action="store_true")
    chosen = options.parse_args()
    for quant in ALL_TYPES:
        products(quant, SMALL if chosen.small else FULL)
    rows.run_all(PTX, check, chosen.small)
    if not (chosen.small or chosen.no_timing):
        peak = copy_bandwidth()
        print(f"\ncopy bandwidth {peak / 1e9:.0f} GB/s\n\n| matvec {FULL} | width 1 | 2 | 3 | 4 |\n| --- | --- | --- | --- | --- |")
        for quant in ALL_TYPES:
            bandwidth(quant, peak, quant.lower())
        for quant in ("Q4_K", "Q5_K", "Q6_K", "Q8_0", "Q4_0"):
            bandwidth(quant, peak, quant.lower(), shape=DOWN)
        for path in sorted(PTX.glob("*-nr*.ptx")):
            name, outputs = path.stem.split("-nr")
            bandwidth(name.upper(), peak, path.stem, int(outputs))
    print(f"\n{len(failures)} checks failed" if failures else "\nevery check passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
