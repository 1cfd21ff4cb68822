"""Attention of metal/ against a plain softmax in float64, and its promise: a row's result is the same bytes in any
group and any tile, at any position of the ring."""

from __future__ import annotations

import kv_quants
import numpy as np
import pytest
from metal_kernels import MODES, from_lane_order, packed, records, run

Array = np.ndarray
BLOCK = 128


class Case:
    """Planes full of random keys and values for one session a plane, and what a pass over some rows gives."""

    def __init__(self, heads: int, kv_heads: int, dim: int, kv: str, window: int, plane_rows: int, mode: str) -> None:
        self.heads, self.kv_heads, self.dim, self.window, self.plane_rows = heads, kv_heads, dim, window, plane_rows
        self.kv, self.mode = kv, mode
        kind = np.float16 if kv == "f16" else np.float32
        rng = np.random.default_rng(heads * dim + window)
        self.planes = [rng.standard_normal((2, kv_heads, plane_rows, dim)).astype(kind) for _ in range(4)]
        if kv == "q8_0":
            parts = [kv_quants.quantized(kv_quants.rotated(plane)) for plane in self.planes]
            self.planes = [np.concatenate([a.view(np.uint8).ravel() for a in quants_scales]) for quants_scales in parts]
        self.q_norm, self.k_norm = rng.uniform(0.5, 2, (2, dim)).astype(np.float32)
        self.scale = 1.5 / np.sqrt(dim)

    def values(self, plane: Array) -> Array:
        """float64 [keys or values, kv head, row, dim]."""
        if self.kv == "q8_0":
            shape, n = (2, self.kv_heads, self.plane_rows, -1), 2 * self.kv_heads * self.plane_rows * self.dim
            plane = kv_quants.values(plane[:n].view(np.int8).reshape(shape), plane[n:].view(np.float16).reshape(shape))
        return plane.astype(np.float64)

    def split(self, n_rows: int) -> tuple[int, int, int]:
        """Query heads of a tile, tiles of one kv head, rows of a tile: as the device cuts them."""
        group = self.heads // self.kv_heads
        most = min(16, 4096 // self.dim)
        heads = min(group, most)
        return heads, -(-group // heads), max(1, most // heads) if n_rows > 1 else 1

    def run(self, rows: Array, query: Array, key: Array, value: Array, angles: Array, *, prefill: bool, prepares: bool,
            gate: Array | None = None, max_splits: int = 64, threads: int = 128) -> tuple[Array, list[Array]]:  # fmt: skip
        if self.kv == "q8_0":  # the kernel that stores keys leaves queries rotated
            query = kv_quants.rotated(query.reshape(len(rows), self.heads, self.dim)).reshape(query.shape)
        heads, groups, tile_rows = self.split(len(rows) if prefill else 1)
        tiles = records("RowTile", [(i, min(tile_rows, len(rows) - i)) for i in range(0, len(rows), tile_rows)])
        vectors = next(h for h in (1, 2, 4, 8, 16) if h >= heads * int(tiles["n_rows"].max()))
        splits = 1 if prefill else max_splits
        head = packed("HeadArgs", n_heads=self.heads, n_kv_heads=self.kv_heads, head_dim=self.dim,
                      query_stride=query.shape[1], key_stride=key.shape[1], q_norm=1, k_norm=1, norm_eps=1e-5,
                      n_pairs=angles.shape[1], halves=1, plane_rows=self.plane_rows)  # fmt: skip
        width = self.heads * self.dim
        args = packed("AttentionArgs", heads=head, scale=self.scale, window=self.window, tile_heads=heads,
                      head_groups=groups, max_splits=splits, prepares=int(prepares), gated=int(gate is not None),
                      out_stride=-(-width // 512) * 512, in_lane_order=int(not prefill))  # fmt: skip
        parts = np.full((len(rows) * self.heads * splits, self.dim), np.nan, np.float32)
        sums = np.full((len(parts), 2), np.nan, np.float32)
        planes = [p.copy() for p in self.planes]
        memory = (vectors * (self.dim + BLOCK + 3) * 4 + 15) // 16 * 16
        keys = int(rows["position"].max()) + 1
        grid = (min(splits, -(-keys // BLOCK)), self.kv_heads * groups, len(tiles))
        buffers = [args, rows, tiles, query, key, value, self.q_norm, self.k_norm, angles, *planes, parts, sums]
        run("attention", f"attention_{self.kv}_{vectors}", self.mode, buffers, grid, threads, threadgroup=[memory])
        out = np.full((len(rows), -(-width // 512) * 512), np.nan, np.float32)
        run("merge", "merge_attention", self.mode, [args, rows, parts, sums, query if gate is None else gate, out],
            (-(-self.heads // 2), len(rows)), 64)  # fmt: skip
        return (out[:, :width] if prefill else from_lane_order(out, width)), planes

    def expected(self, rows: Array, query: Array, planes: list[Array], gate: Array | None = None) -> Array:
        out = np.zeros((len(rows), self.heads, self.dim))
        planes = [self.values(plane) for plane in planes]
        for r, (_, position, session) in enumerate(rows.tolist()):
            first = max(0, position - self.window + 1) if self.window else 0
            at = np.arange(first, position + 1) % self.plane_rows
            for h in range(self.heads):
                k, v = planes[session][:, h * self.kv_heads // self.heads, at]
                s = self.scale * (k @ query[r].reshape(self.heads, self.dim)[h])
                w = np.exp(s - s.max())
                out[r, h] = w @ v / w.sum()
        out = out.reshape(len(rows), -1)
        return out if gate is None else out / (1 + np.exp(-gate.astype(np.float64)))


def inputs(case: Case, n: int, seed: int = 0) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    query = rng.standard_normal((n, case.heads * case.dim)).astype(np.float32)
    key, value = rng.standard_normal((2, n, case.kv_heads * case.dim)).astype(np.float32)
    turns = rng.uniform(0, 6, (n, case.dim // 2))
    return query, key, value, np.stack([np.cos(turns), np.sin(turns)], -1).astype(np.float32)


SHAPES = [
    (16, 1, 128, "f16", 0, 700),  # a kv head of Muse Glimmer
    (6, 2, 32, "f32", 0, 700),  # three query heads a kv head
    (4, 2, 16, "f16", 20, 64),  # a ring
    (3, 3, 80, "f32", 300, 384),
    (4, 2, 32, "q8_0", 20, 64),
    (2, 1, 192, "q8_0", 0, 300),
    (4, 1, 256, "f16", 0, 300),  # Gemma
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("heads, kv_heads, dim, kv, window, plane_rows", SHAPES)
def test_stored_keys(heads: int, kv_heads: int, dim: int, kv: str, window: int, plane_rows: int, mode: str) -> None:
    case = Case(heads, kv_heads, dim, kv, window, plane_rows, mode)
    last = plane_rows - 1 if not window else plane_rows + 37
    positions = [5, last] if mode == "check" else [0, 5, last, BLOCK]
    rows = records("RowInfo", [(0, min(p, last), s) for s, p in enumerate(positions)])
    query, key, value, angles = inputs(case, len(rows))
    gate = np.random.default_rng(9).standard_normal(query.shape).astype(np.float32)
    together, _ = case.run(rows, query, key, value, angles, prefill=False, prepares=False, gate=gate)
    np.testing.assert_allclose(together, case.expected(rows, query, case.planes, gate), rtol=1e-4, atol=1e-5)
    for i in range(len(rows)):
        one = slice(i, i + 1)
        alone, _ = case.run(rows[one], query[one], key[one], value[one], angles[one], prefill=False, prepares=False,
                            gate=gate[one])  # fmt: skip
        assert alone[0].tobytes() == together[i].tobytes()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("splits", (1, 2, 64))
def test_prepared_inside(splits: int, mode: str) -> None:
    """Decode's form: raw queries and keys in, the newest key and value stored, a ring that wraps."""
    case = Case(8, 2, 64, "f16", 300, 384, mode)
    rows = records("RowInfo", [(0, 3 * 384 + 130, 0), (0, 0, 1), (0, 383, 3)])
    query, key, value, angles = inputs(case, 3, seed=4)

    def prepared(x: Array, weight: Array, n: int) -> Array:
        x = x.reshape(3, n, 64).astype(np.float64)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight
        a, b, c, s = x[..., :32], x[..., 32:], angles[:, None, :, 0], angles[:, None, :, 1]
        return np.concatenate([a * c - b * s, a * s + b * c], -1)

    got, planes = case.run(rows, query, key, value, angles, prefill=False, prepares=True, max_splits=splits)
    for i, (_, position, session) in enumerate(rows.tolist()):
        at = position % 384
        stored = planes[session][:, :, at].copy()
        np.testing.assert_allclose(stored[0], prepared(key, case.k_norm, 2)[i], rtol=2e-3, atol=2e-3)
        assert (stored[1] == value[i].reshape(2, 64).astype(np.float16)).all()
        planes[session][:, :, at] = case.planes[session][:, :, at]
        assert (planes[session] == case.planes[session]).all(), "a row that is not the newest was written"
        planes[session][:, :, at] = stored
    expected = case.expected(rows, prepared(query, case.q_norm, 8).reshape(3, -1), planes)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("heads, kv_heads, dim, kv, window, plane_rows", SHAPES[:5])
def test_rows_of_a_chunk(heads: int, kv_heads: int, dim: int, kv: str, window: int, plane_rows: int, mode: str) -> None:
    case = Case(heads, kv_heads, dim, kv, window, plane_rows, mode)
    n = 6 if mode == "check" else 19
    first = plane_rows - 9 if window else BLOCK - 4
    rows = records("RowInfo", [(0, first + i, 2) for i in range(n)])
    query, key, value, angles = inputs(case, n)
    whole, _ = case.run(rows, query, key, value, angles, prefill=True, prepares=False)
    np.testing.assert_allclose(whole, case.expected(rows, query, case.planes), rtol=1e-4, atol=1e-5)
    for cut in ((0, 1), (1, 4), (4, n)):
        part = slice(*cut)
        some, _ = case.run(rows[part], query[part], key[part], value[part], angles[part], prefill=True, prepares=False)
        assert some.tobytes() == np.ascontiguousarray(whole[part]).tobytes(), f"rows {cut}"
