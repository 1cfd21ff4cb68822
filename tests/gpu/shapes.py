"""Launches of the product kernels, as the device makes them (csrc/device/metal/product_recorder.mm)."""

from __future__ import annotations

import numpy as np
from metal_kernels import HALVES, glu_outputs, in_lane_order, packed
from metal_sim.cuda import Launch, Library, Memory

GROUPS = 4  # SIMD-groups of a threadgroup
OUTPUTS = 2  # of a SIMD-group of a matvec
REGISTERS = {1: 72}  # at most of a thread, by width; else Library's. Measured.


class Product:
    """One matrix of random blocks, resident; ``copies`` of it so that no cache holds them all."""

    def __init__(self, stored: np.ndarray, cols: int, copies: int = 1) -> None:
        self.rows, self.row_bytes = stored.shape
        self.cols = cols
        self.weights = [Memory(stored) for _ in range(copies)]

    def _args(self, n: int, stride: int) -> Memory:
        args = packed("ProductArgs", cols=self.cols, row_bytes=self.row_bytes, n_rows=n, x_stride=stride, n_matrices=1,
                      rows=[self.rows], out_stride=[self.rows], scale=1.0, halves=HALVES)  # fmt: skip
        return Memory(np.frombuffer(args, np.uint8))

    def _buffers(self, args: Memory, x: Memory, weight: Memory, out: Memory) -> dict[int, Memory]:
        four = {i: weight for i in range(2, 6)} | {i: out for i in range(6, 14)}
        return {0: args, 1: x, **four}

    def matvecs(self, library: Library, name: str, x: np.ndarray, outputs: int = OUTPUTS) -> tuple[list[Launch], Memory]:
        """A launch for each copy, all into one output [rows of x, rows]."""
        lanes = in_lane_order(x)
        args, given = self._args(len(x), lanes.shape[1]), Memory(lanes)
        out = Memory(np.full((len(x), self.rows), np.nan, np.float32))
        grid = (-(-self.rows // (outputs * GROUPS)),)
        return [
            library.prepare(f"{name}_{len(x)}", self._buffers(args, given, w, out), grid, (32 * GROUPS,))
            for w in self.weights
        ], out

    def glus(self, library: Library, quant: str, x: np.ndarray) -> tuple[list[Launch], Memory]:
        """A launch for each two copies, gate and up, all into one output [rows of x, rows in lane order]."""
        lanes, n = in_lane_order(x), len(x)
        stride = -(-self.rows // 512) * 512
        args = packed("ProductArgs", cols=self.cols, row_bytes=self.row_bytes, n_rows=n, x_stride=lanes.shape[1],
                      n_matrices=2, rows=[self.rows] * 2, out_stride=[stride] * 2, scale=1.0, halves=HALVES)  # fmt: skip
        given, out = Memory(lanes), Memory(np.full((n, stride), np.nan, np.float32))
        shared = {0: Memory(np.frombuffer(args, np.uint8)), 1: given, 4: out, 5: out, 6: out}
        grid = (-(-self.rows // (glu_outputs(quant, n) * GROUPS)),)
        return [
            library.prepare(f"matvec_glu_{quant.lower()}_{n}", shared | {2: gate, 3: up}, grid, (32 * GROUPS,))
            for gate, up in zip(self.weights[::2], self.weights[1::2])
        ], out

    def matmul(self, library: Library, name: str, x: np.ndarray, tile: int) -> tuple[Launch, Memory]:
        args, given = self._args(len(x), x.shape[1]), Memory(np.ascontiguousarray(x))
        out = Memory(np.full((len(x), self.rows), np.nan, np.float32))
        grid = (-(-self.rows // (16 * GROUPS)), -(-len(x) // tile))
        buffers = self._buffers(args, given, self.weights[0], out)
        return library.prepare(f"{name}_{tile}", buffers, grid, (32 * GROUPS,)), out
