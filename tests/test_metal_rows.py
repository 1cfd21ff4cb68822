"""The row kernels of metal/: norms, prepared heads and stored keys, activations, copies, arg-max, against numpy."""

from __future__ import annotations

import kv_quants
import numpy as np
import pytest
from metal_kernels import EXACT_MODES, MODES, from_lane_order, packed, records, run

Array = np.ndarray


def rms(x: Array, eps: float) -> Array:
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threads", (32, 160, 1024))
@pytest.mark.parametrize("cols", (64, 176))
def test_every_form_of_the_norm(cols: int, threads: int, mode: str) -> None:
    rng = np.random.default_rng(cols)
    stride = 512
    residual, branch = (np.full((3, stride), np.nan, np.float32) for _ in range(2))
    residual[:, :cols], branch[:, :cols] = rng.standard_normal((2, 3, cols)) * 0.01  # eps matters
    post, following = rng.standard_normal((2, cols)).astype(np.float32)
    for has_branch, has_post, has_next, lanes in ((0, 0, 1, 0), (1, 0, 1, 1), (1, 1, 1, 1), (1, 1, 0, 0)):
        x, normed = residual.copy(), np.full((3, stride), np.nan, np.float32)
        picked = np.zeros(3, np.int32)
        args = packed("NormArgs", cols=cols, stride=stride, has_branch=has_branch, has_post=has_post,
                      has_next=has_next, in_lane_order=lanes, post_eps=1e-8, next_eps=1e-5)  # fmt: skip
        run("norm", "residual_norm", mode, [args, x, branch, post, following, normed, picked], (3,), threads)
        expected = residual[:, :cols].astype(np.float64)
        if has_branch:
            expected = expected + (rms(branch[:, :cols], 1e-8) * post if has_post else branch[:, :cols])
        np.testing.assert_allclose(x[:, :cols], expected, rtol=2e-6, atol=1e-7)
        if has_next:
            got = from_lane_order(normed, cols) if lanes else normed[:, :cols]
            np.testing.assert_allclose(got, rms(expected, 1e-5) * following, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_the_head_norms_the_picked_rows_only(mode: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 64)).astype(np.float32)
    weight, before = rng.standard_normal(64).astype(np.float32), x.copy()
    out, picked = np.full((2, 64), np.nan, np.float32), np.array([4, 1], np.int32)
    args = packed("NormArgs", cols=64, stride=64, has_next=1, picks_rows=1, next_eps=1e-6)
    run("norm", "residual_norm", mode, [args, x, x, weight, weight, out, picked], (2,), 64)
    np.testing.assert_allclose(out, rms(before[picked], 1e-6) * weight, rtol=1e-5, atol=1e-6)
    assert (x == before).all()


def turned(x: Array, angles: Array, halves: bool) -> Array:
    """x [.., dim], angles [.., pairs, 2] as (cos, sin)."""
    n = angles.shape[-2]
    i, j = (np.arange(n), np.arange(n) + n) if halves else (2 * np.arange(n), 2 * np.arange(n) + 1)
    out = x.copy()
    out[..., i] = x[..., i] * angles[..., 0] - x[..., j] * angles[..., 1]
    out[..., j] = x[..., i] * angles[..., 1] + x[..., j] * angles[..., 0]
    return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kv", ("f16", "f32"))
@pytest.mark.parametrize("norm, pairs, halves, dim", ((1, 16, 0, 32), (1, 8, 1, 32), (0, 40, 1, 80), (1, 0, 0, 16)))
def test_heads_are_prepared_and_stored(norm: int, pairs: int, halves: int, dim: int, kv: str, mode: str) -> None:
    rng = np.random.default_rng(dim)
    heads, kv_heads, plane_rows = 3, 2, 8
    kind = np.float16 if kv == "f16" else np.float32
    rows = records("RowInfo", [(0, 7, 0), (0, 8, 0), (0, 3, 1)])  # row 8 of a ring of 8 is row 0
    query = rng.standard_normal((3, heads * dim)).astype(np.float32)
    key, value = rng.standard_normal((2, 3, kv_heads * dim)).astype(np.float32)
    q_norm, k_norm = rng.standard_normal((2, dim)).astype(np.float32)
    turns = rng.uniform(0, 6, (3, max(pairs, 1)))
    angles = np.stack([np.cos(turns), np.sin(turns)], -1).astype(np.float32)
    planes = [np.zeros((2, kv_heads, plane_rows, dim), kind) for _ in range(4)]
    args = packed("HeadArgs", n_heads=heads, n_kv_heads=kv_heads, head_dim=dim, query_stride=heads * dim,
                  key_stride=kv_heads * dim, q_norm=norm, k_norm=norm, norm_eps=1e-5, n_pairs=pairs, halves=halves,
                  plane_rows=plane_rows)  # fmt: skip

    def prepared(x: Array, weight: Array, n: int) -> Array:
        x = x.reshape(3, n, dim).astype(np.float64)
        x = rms(x, 1e-5) * weight if norm else x
        return turned(x, angles[:, None].astype(np.float64), bool(halves)) if pairs else x

    expected_q, expected_k = prepared(query, q_norm, heads), prepared(key, k_norm, kv_heads)
    buffers = [args, rows, query, key, value, q_norm, k_norm, angles, *planes]
    run("store", f"store_{kv}", mode, buffers, (-(-(heads + 2 * kv_heads) // 2), 3), 64)
    np.testing.assert_allclose(query.reshape(3, heads, dim), expected_q, rtol=1e-5, atol=2e-6)
    tolerance = 1e-3 if kv == "f16" else 2e-6
    for i, (_, position, session) in enumerate(rows.tolist()):
        at = position % plane_rows
        np.testing.assert_allclose(planes[session][0, :, at], expected_k[i], rtol=tolerance, atol=tolerance)
        assert (planes[session][1, :, at] == value[i].reshape(kv_heads, dim).astype(kind)).all()
    assert not planes[2].any() and not planes[0][:, :, 1:7].any()


@pytest.mark.parametrize("mode", EXACT_MODES)
@pytest.mark.parametrize("dim", (32, 96, 256))
def test_heads_in_q8_0_are_those_of_float_rounded_by_the_definition(dim: int, mode: str) -> None:
    rng = np.random.default_rng(dim)
    rows = records("RowInfo", [(0, 7, 0), (0, 8, 0), (0, 3, 1)])
    args = packed("HeadArgs", n_heads=3, n_kv_heads=2, head_dim=dim, query_stride=3 * dim, key_stride=2 * dim, q_norm=1, k_norm=1,
                  norm_eps=1e-5, n_pairs=dim // 2, halves=1, plane_rows=8)  # fmt: skip
    query, key, value = (rng.standard_normal((3, n * dim)).astype(np.float32) for n in (3, 2, 2))
    key[1, 5] = 300.0  # an outlier
    q_norm, k_norm = rng.standard_normal((2, dim)).astype(np.float32)
    turns = rng.uniform(0, 6, (3, dim // 2))
    angles = np.stack([np.cos(turns), np.sin(turns)], -1).astype(np.float32)
    queries, planes = {}, {}
    for kv, size in (("f32", 4 * dim), ("q8_0", dim + dim // 16)):
        queries[kv] = query.copy()
        planes[kv] = [np.zeros(2 * 2 * 8 * size, np.uint8) for _ in range(4)]
        buffers = [args, rows, queries[kv], key.copy(), value, q_norm, k_norm, angles, *planes[kv]]
        run("store", f"store_{kv}", mode, buffers, (4, 3), 64)
    assert queries["q8_0"].tobytes() == kv_quants.rotated(queries["f32"].reshape(9, dim)).tobytes()
    for plain, rounded in zip(planes["f32"], planes["q8_0"], strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):  # rows that nobody wrote
            quants, scales = kv_quants.quantized(kv_quants.rotated(plain.view(np.float32).reshape(-1, dim)))
        n = quants.size
        written = plain.view(np.float32).reshape(-1, dim).any(axis=1)
        assert (rounded[:n].view(np.int8).reshape(-1, dim)[written] == quants[written]).all()
        assert (rounded[n:].view(np.float16).reshape(len(quants), -1) == scales).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("gelu, lanes", ((0, 0), (1, 1)))
def test_glu(gelu: int, lanes: int, mode: str) -> None:
    rng = np.random.default_rng(2)
    gate, up = (np.full((2, 512), np.nan, np.float32) for _ in range(2))
    gate[:, :96], up[:, :96] = rng.standard_normal((2, 2, 96)) * 4
    a, b = gate[:, :96].astype(np.float64), up[:, :96]
    inner = 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))) if gelu else 1 / (1 + np.exp(-a))
    out = np.full((2, 512), np.nan, np.float32)
    args = packed("GluArgs", cols=96, stride=512, gelu=gelu, in_lane_order=lanes)
    run("glu", "glu", mode, [args, gate, up, out], (2, 2), 64)
    np.testing.assert_allclose(from_lane_order(out, 96) if lanes else out[:, :96], a * inner * b, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_copies(mode: str) -> None:
    x = np.arange(3 * 70, dtype=np.float32).reshape(3, 70)
    out = np.full((3, 65), np.nan, np.float32)
    run("copy", "copy_rows", mode, [packed("CopyArgs", cols=65, stride=70), x, out], (3, 3), 32)
    assert (out == x[:, :65]).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("threads", (32, 256))
def test_argmax_is_the_first_of_the_largest(threads: int, mode: str) -> None:
    rng = np.random.default_rng(3)
    logits = rng.integers(-9, 9, (6, 300)).astype(np.float32)
    logits[1] = -np.inf
    if mode != "fast-math":
        logits[2, 7] = np.nan
    logits[3, [299, 298]] = 50
    expected = [int(np.nan_to_num(row, nan=-np.inf, neginf=-np.inf).argmax()) for row in logits]
    chosen = np.zeros(6, np.int32)
    rows = records("RowInfo", [(-1, 5, 2)] * 6)
    run("argmax", "argmax", mode, [packed("ArgmaxArgs", cols=300, stride=300), logits, rows, chosen], (6,), threads)
    assert rows["token"].tolist() == expected
    impossible = (1,) if mode == "fast-math" else (1, 2)
    assert chosen.tolist() == [-1 if row in impossible else token for row, token in enumerate(expected)]
    assert rows["position"].tolist() == [5] * 6
