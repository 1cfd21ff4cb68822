"""Launches of the product kernels, as the device makes them (csrc/device/metal/product_recorder.mm)."""

from __future__ import annotations

import math
from ctypes import c_uint64

import numpy as np
from metal_kernels import HALVES, in_lane_order, matvec_outputs, packed, staged_halves, staged_outputs
from metal_sim.cuda import Launch, Library, Memory

GROUPS = 4  # SIMD-groups of a threadgroup
MANY_OUTPUTS = 24576  # from here on a matrix's inputs are staged


def kind(rows: int, cols: int) -> str:
    """Of the kernel that multiplies one matrix with one to four rows."""
    return "staged" if rows >= MANY_OUTPUTS else "divided" if cols >= 2 * rows else ""


def registers(quant: str, width: int, kind: str) -> int:
    """At most of a thread. Measured."""
    return 72 if width == 1 else 96 if kind == "divided" and matvec_outputs(quant, width) == 2 else 128


class Part:
    """The end of a buffer."""

    def __init__(self, whole: Memory, offset: int) -> None:
        self.whole, self.address = whole, c_uint64(whole.address.value + offset)


class Product:
    """One matrix of random blocks, resident; ``copies`` of it so that no cache holds them all."""

    def __init__(self, stored: np.ndarray, cols: int, copies: int = 1) -> None:
        self.rows, self.row_bytes = stored.shape
        self.cols = cols
        self.weights = [Memory(stored) for _ in range(copies)]

    def _args(self, n: int, stride: int, rows: list[int]) -> Memory:
        args = packed("ProductArgs", cols=self.cols, row_bytes=self.row_bytes, n_rows=n, x_stride=stride, n_matrices=1,
                      rows=rows, out_stride=[self.rows], scale=1.0, halves=HALVES)  # fmt: skip
        return Memory(np.frombuffer(args, np.uint8))

    def _buffers(self, args: Memory, x: Memory, weight: Memory, out: Memory) -> dict[int, Memory]:
        four = {i: weight for i in range(2, 6)} | {i: out for i in range(6, 14)}
        return {0: args, 1: x, **four}

    def matvecs(
        self, library: Library, quant: str, x: np.ndarray, kind: str, outputs: int = 0
    ) -> tuple[list[Launch], Memory]:
        """A launch for each copy, all into one output [rows of x, rows]. ``outputs``: of a SIMD-group, if not as usual."""
        lanes, n = in_lane_order(x), len(x)
        outputs = outputs or matvec_outputs(quant, n)
        half, second = staged_halves(self.rows)
        args = self._args(n, lanes.shape[1], [half, second] if kind == "staged" else [self.rows])
        given, out = Memory(lanes), Memory(np.full((n, self.rows), np.nan, np.float32))
        tiles = {"": self.rows / outputs, "divided": 2 * self.rows / outputs, "staged": half / staged_outputs(quant, n)}[kind]
        name = "_".join(["matvec", *([kind] if kind else []), quant.lower(), str(n)])

        def buffers(w: Memory) -> dict[int, Memory | Part]:
            halved = {3: Part(w, second * self.row_bytes)} if kind == "staged" else {}
            return self._buffers(args, given, w, out) | halved

        return [library.prepare(name, buffers(w), (math.ceil(tiles / GROUPS),), (32 * GROUPS,)) for w in self.weights], out

    def glus(self, library: Library, quant: str, x: np.ndarray) -> tuple[list[Launch], Memory]:
        """A launch for each two copies, gate and up, all into one output [rows of x, rows in lane order]."""
        lanes, n = in_lane_order(x), len(x)
        stride = -(-self.rows // 512) * 512
        args = packed("ProductArgs", cols=self.cols, row_bytes=self.row_bytes, n_rows=n, x_stride=lanes.shape[1],
                      n_matrices=2, rows=[self.rows] * 2, out_stride=[stride] * 2, scale=1.0, halves=HALVES)  # fmt: skip
        given, out = Memory(lanes), Memory(np.full((n, stride), np.nan, np.float32))
        shared = {0: Memory(np.frombuffer(args, np.uint8)), 1: given, 4: out, 5: out, 6: out}
        grid = (-(-self.rows // (staged_outputs(quant, n) * GROUPS)),)
        return [
            library.prepare(f"matvec_staged_{quant.lower()}_{n}", shared | {2: gate, 3: up}, grid, (32 * GROUPS,))
            for gate, up in zip(self.weights[::2], self.weights[1::2])
        ], out

    def matmul(self, library: Library, name: str, x: np.ndarray, tile: int) -> tuple[Launch, Memory]:
        args, given = self._args(len(x), x.shape[1], [self.rows]), Memory(np.ascontiguousarray(x))
        out = Memory(np.full((len(x), self.rows), np.nan, np.float32))
        grid = (-(-self.rows // (16 * GROUPS)), -(-len(x) // tile))
        buffers = self._buffers(args, given, self.weights[0], out)
        return library.prepare(f"{name}_{tile}", buffers, grid, (32 * GROUPS,)), out
