"""GB/s of weights of the decode products at widths 1 to 4, as tables in Markdown."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from metal_sim import cuda
from metal_sim.cuda import Graph, Launch, Library, Memory
from quant_blocks import ALL_TYPES

from .shapes import Product, kind, registers

Stored = Callable[[str, tuple[int, int]], np.ndarray]
GATE, DOWN, HEAD = (19968, 6656), (6656, 19968), (202048, 6656)  # of Muse Glimmer
WEIGHTS = 6e8  # bytes of them that take turns, at least: no cache holds them
LAUNCHES = 16  # of a graph, about


def seconds(run: Callable[[], None], repeats: int = 7) -> float:
    """Median."""
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


def of_one(launches: Sequence[Launch]) -> float:
    """Seconds of one launch among others, each of which waits for the one before: as between the barriers of a pass."""
    rounds = -(-LAUNCHES // len(launches))
    return seconds(Graph(list(launches) * rounds)) / (rounds * len(launches))


def line(label: str, n_bytes: int, peak: float, launches: Callable[[int], Sequence[Launch]]) -> None:
    """GB/s, its share of the copy bandwidth, and the gain in rows a second over width 1."""
    text, first = f"| {label} |", 0.0
    for width in (1, 2, 3, 4):
        taken = of_one(launches(width))
        first = first or taken
        text += f" {n_bytes / taken / 1e9:.0f} ({n_bytes / taken / peak:.0%}, {width * first / taken:.2f}x) |"
    print(text, flush=True)


class Kernels:
    """A file's kernels of a kind at each width."""

    def __init__(self, ptx: Path, quant: str, kind: str) -> None:
        limits = {width: registers(quant, width, kind) for width in (1, 2, 3, 4)}
        of_limit = {n: Library(ptx, n) for n in set(limits.values())}
        self._of = {width: of_limit[n] for width, n in limits.items()}

    def at(self, width: int) -> Library:
        return self._of[width]


def inputs(width: int, cols: int) -> np.ndarray:
    return np.random.default_rng(2).standard_normal((width, cols)).astype(np.float32)


def matvec(ptx: Path, label: str, quant: str, peak: float, blocks: np.ndarray, cols: int, outputs: int = 0) -> None:
    what = kind(len(blocks), cols)
    kernels, product = Kernels(ptx, quant, what), Product(blocks, cols, copies=max(1, round(WEIGHTS / blocks.nbytes)))
    line(label, blocks.nbytes, peak, lambda n: product.matvecs(kernels.at(n), quant, inputs(n, cols), what, outputs)[0])


def glu(ptx: Path, label: str, quant: str, peak: float, blocks: np.ndarray, cols: int) -> None:
    kernels = Kernels(ptx, quant, "staged")
    product = Product(blocks, cols, copies=2 * max(1, round(WEIGHTS / blocks.nbytes / 2)))
    line(label, 2 * blocks.nbytes, peak, lambda n: product.glus(kernels.at(n), quant, inputs(n, cols))[0])


def tables(folder: Path, stored: Stored) -> None:
    peak = copy_bandwidth()
    print(f"\ncopy bandwidth {peak / 1e9:.0f} GB/s")

    def heading(what: str) -> None:
        print(f"\n| {what} | width 1 | 2 | 3 | 4 |\n| --- | --- | --- | --- | --- |")

    heading("gate and up, 2 x 19,968 x 6,656")
    for quant in ALL_TYPES:
        glu(folder / f"{quant.lower()}.ptx", quant.lower(), quant, peak, stored(quant, GATE), GATE[1])
    heading("one matrix, 19,968 x 6,656")
    for quant in ALL_TYPES:
        matvec(folder / f"{quant.lower()}.ptx", quant.lower(), quant, peak, stored(quant, GATE), GATE[1])
    for path in sorted(folder.glob("*-nr*.ptx")):
        name, outputs = path.stem.split("-nr")
        quant = name.upper()
        matvec(path, path.stem, quant, peak, stored(quant, GATE), GATE[1], int(outputs))
    for label, shape in (("down, 6,656 x 19,968", DOWN), ("head, 202,048 x 6,656", HEAD)):
        heading(label)
        for quant in ("Q4_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K"):
            matvec(folder / f"{quant.lower()}.ptx", quant.lower(), quant, peak, stored(quant, shape), shape[1])
