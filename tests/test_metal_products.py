"""The products of metal/: every weight type, one to four rows (matvec) and tiles (matmul), against float64.

A row's result is the same bytes at every width, in every tile, at every place in it.
"""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from metal_kernels import (
    EXACT_MODES,
    HALVES,
    MODES,
    from_lane_order,
    in_lane_order,
    matvec_outputs,
    packed,
    run,
    staged_halves,
    staged_outputs,
)
from quant_blocks import ALL_TYPES, block_size, random_weights

GROUPS = 2  # SIMD-groups a threadgroup

def matrix(quant: str, rows: int, cols: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The stored bytes, uint8 [rows, bytes], and their values, float64 [rows, cols]."""
    stored = random_weights(quant, rows, cols, np.random.default_rng(seed), 0.05)
    values = gguf.quants.dequantize(stored, gguf.GGMLQuantizationType[quant]).reshape(rows, cols)
    return np.ascontiguousarray(stored).view(np.uint8).reshape(rows, -1), values.astype(np.float64)


def columns(quant: str) -> int:
    """A width with a last tile that is not whole."""
    return 768 if block_size(quant)[0] == 256 else 544 if block_size(quant)[0] == 32 else 528


def close(got: np.ndarray, w: np.ndarray, x: np.ndarray) -> None:
    """Within float32 rounding of sums of this size."""
    bound = 3e-6 * (np.abs(x).astype(np.float64) @ np.abs(w).T) + 1e-30
    assert (np.abs(got - x.astype(np.float64) @ w.T) <= bound).all()


def four(items: list) -> list:
    """Unused bindings repeat the first."""
    return (items + [items[0]] * 4)[:4]


def matvec(
    quant: str, mode: str, stored: list[np.ndarray], biases: list[np.ndarray | None], x: np.ndarray, kind: str = "", **extra
) -> list:
    """``kind`` is "", "divided" or, of one matrix, "staged"."""
    cols = x.shape[1]
    rows = [len(w) for w in stored]
    tiles = [-(-n // matvec_outputs(quant, len(x))) for n in rows]
    lanes = in_lane_order(x)
    outs = [np.full((len(x), len(w) + 3), np.nan, np.float32) for w in stored]
    args = packed(
        "ProductArgs",
        cols=cols,
        row_bytes=stored[0].shape[1],
        n_rows=len(x),
        x_stride=lanes.shape[1],
        n_matrices=len(stored),
        first_tile=[sum(tiles[:i]) for i in range(len(stored))],
        rows=staged_halves(rows[0]) if kind == "staged" else rows,
        out_stride=[o.shape[1] for o in outs],
        biases=sum(1 << i for i, b in enumerate(biases) if b is not None),
        scale=extra.get("scale", 1.0),
        softcap=extra.get("softcap", 0.0),
        halves=HALVES,
    )
    bound = [b if b is not None else outs[0] for b in biases]
    buffers = [args, lanes, *four(stored), *four(bound), *four(outs)]
    grid = -(-sum(tiles) // (GROUPS // 2 if kind == "divided" else GROUPS))
    if kind == "staged":
        half, second = staged_halves(rows[0])
        buffers = [args, lanes, stored[0], stored[0][second:], bound[0], bound[0], outs[0]]
        grid = -(-half // (staged_outputs(quant, len(x)) * GROUPS))
    name = "_".join(["matvec", *([kind] if kind else []), quant.lower(), str(len(x))])
    run(quant.lower(), name, mode, buffers, (grid,), 32 * GROUPS)
    return [o[:, : len(w)] for o, w in zip(outs, stored)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("quant", ALL_TYPES)
def test_a_row_is_the_same_at_every_width_and_right(quant: str, mode: str) -> None:
    same_at_every_width_and_right(quant, mode, "", columns(quant))


# Divided: a last tile that is not whole belongs to the first SIMD-group of two, or to the second; rows that are no tile.
@pytest.mark.parametrize("quant, cols", [(q, columns(q)) for q in ALL_TYPES] + [("Q4_K", 2304), ("Q8_0", 1056), ("Q6_K", 2048)])
@pytest.mark.parametrize("kind", ("divided", "staged"))
def test_a_row_of_other_shapes_is_the_same_at_every_width_and_right(quant: str, cols: int, kind: str) -> None:
    same_at_every_width_and_right(quant, "check", kind, cols)


def same_at_every_width_and_right(quant: str, mode: str, kind: str, cols: int) -> None:
    stored, values = matrix(quant, 11, cols, 1)
    x = np.random.default_rng(2).standard_normal((4, cols)).astype(np.float32)
    alone = [matvec(quant, mode, [stored], [None], x[i : i + 1], kind)[0] for i in range(4)]
    for width in {"fast": (2, 3, 4), "check": (4,) if kind == "" else (2, 3, 4)}.get(mode, ()):
        for first in range(5 - width) if kind == "" else (0,):
            (out,) = matvec(quant, mode, [stored], [None], x[first : first + width], kind)
            for i in range(width):
                assert out[i].tobytes() == alone[first + i][0].tobytes(), f"width {width}, row {i}"
    close(np.concatenate(alone), values, x)


# A whole tile that ends the row, rows that begin in the middle of a word, and rests of one, eight and 24 units.
@pytest.mark.parametrize("quant, cols", [("Q4_0", 1024), ("Q4_0", 1056), ("IQ4_NL", 1056), ("Q6_K", 1280), ("Q4_K", 1792)])
def test_whole_tiles_and_what_is_left(quant: str, cols: int) -> None:
    stored, values = matrix(quant, 3, cols, 1)
    x = np.random.default_rng(2).standard_normal((2, cols)).astype(np.float32)
    (out,) = matvec(quant, "check", [stored], [None], x)
    close(out, values, x)
    for i in range(2):
        (alone,) = matvec(quant, "check", [stored], [None], x[i : i + 1])
        assert alone.tobytes() == out[i].tobytes()


@pytest.mark.parametrize("mode, kind", [(m, "") for m in MODES] + [("check", "divided")])
def test_four_matrices_in_one_dispatch_with_biases_scale_and_cap(mode: str, kind: str) -> None:
    rng = np.random.default_rng(3)
    made = [matrix("Q8_0", rows, 64, rows) for rows in (9, 4, 1, 6)]
    biases = [rng.standard_normal(len(w)).astype(np.float32) if i % 2 == 0 else None for i, (w, _) in enumerate(made)]
    x = rng.standard_normal((2, 64)).astype(np.float32)
    outs = matvec("Q8_0", mode, [w for w, _ in made], biases, x, kind, scale=0.5, softcap=2.0)
    for out, (_, values), bias in zip(outs, made, biases):
        expected = 2.0 * np.tanh((x @ values.T + (0 if bias is None else bias)) * 0.5 / 2.0)
        np.testing.assert_allclose(out, expected, atol=2e-6)


def test_one_staged_matrix_with_a_bias_scale_and_cap() -> None:
    stored, values = matrix("Q8_0", 9, 64, 9)
    x, bias = (np.random.default_rng(s).standard_normal(n).astype(np.float32) for s, n in ((3, (2, 64)), (4, 9)))
    (out,) = matvec("Q8_0", "check", [stored], [bias], x, "staged", scale=0.5, softcap=2.0)
    np.testing.assert_allclose(out, 2.0 * np.tanh((x @ values.T + bias) * 0.5 / 2.0), atol=2e-6)


def glu(quant: str, mode: str, gate: np.ndarray, up: np.ndarray, x: np.ndarray, gelu: int = 0, groups: int = GROUPS) -> np.ndarray:
    n, width, lanes = len(gate), len(x), in_lane_order(x)
    out = np.full((width, 512), np.nan, np.float32)
    args = packed("ProductArgs", cols=x.shape[1], row_bytes=gate.shape[1], n_rows=width, x_stride=lanes.shape[1],
                  n_matrices=2, rows=[n, n], out_stride=[512, 512], scale=1.0, gelu=gelu, halves=HALVES)  # fmt: skip
    grid = (-(-n // (staged_outputs(quant, width) * groups)),)
    buffers = [args, lanes, gate, up, out, out, out]
    run(quant.lower(), f"matvec_staged_{quant.lower()}_{width}", mode, buffers, grid, 32 * groups)
    return from_lane_order(out, n)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("gelu", (0, 1))
def test_glu_products_equal_their_parts(gelu: int, mode: str) -> None:
    rng = np.random.default_rng(4)
    (gate, gate_values), (up, up_values) = (matrix("Q4_K", 37, 512, s) for s in (5, 6))
    x = rng.standard_normal((4, 512)).astype(np.float32)
    for width in (1, 4):
        got = glu("Q4_K", mode, gate, up, x[:width], gelu)
        a, b = x[:width] @ gate_values.T, x[:width] @ up_values.T
        inner = 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))) if gelu else 1 / (1 + np.exp(-a))
        np.testing.assert_allclose(got, a * inner * b, rtol=1e-4, atol=1e-6)
        if width == 1:
            alone = got
    if mode in EXACT_MODES:
        assert got[0].tobytes() == alone[0].tobytes()


# A whole tile of 512 columns and a rest; outputs that no threadgroup is full of; fewer SIMD-groups than usual.
@pytest.mark.parametrize("quant", ALL_TYPES)
def test_a_row_of_a_glu_is_the_same_at_every_width_and_right(quant: str) -> None:
    cols = columns(quant)
    (gate, gate_values), (up, up_values) = (matrix(quant, 19, cols, s) for s in (5, 6))
    x = np.random.default_rng(2).standard_normal((4, cols)).astype(np.float32)
    alone = np.concatenate([glu(quant, "check", gate, up, x[i : i + 1]) for i in range(4)])
    for width in (2, 3, 4):
        got = glu(quant, "check" if width == 4 else "fast", gate, up, x[:width], groups=5 - width)
        assert got.tobytes() == alone[:width].tobytes(), f"width {width}"
    a, b = x.astype(np.float64) @ gate_values.T, x.astype(np.float64) @ up_values.T
    np.testing.assert_allclose(alone, a / (1 + np.exp(-a)) * b, rtol=1e-4, atol=1e-5 * np.abs(a * b).max())


def matmul(quant: str, mode: str, stored: list[np.ndarray], x: np.ndarray, tile: int, groups: int) -> list[np.ndarray]:
    tiles = [-(-len(w) // (16 * groups)) for w in stored]
    outs = [np.full((len(x), len(w)), np.nan, np.float32) for w in stored]
    args = packed("ProductArgs", cols=x.shape[1], row_bytes=stored[0].shape[1], n_rows=len(x), x_stride=x.shape[1],
                  n_matrices=len(stored), first_tile=[sum(tiles[:i]) for i in range(len(stored))],
                  rows=[len(w) for w in stored], out_stride=[len(w) for w in stored], scale=1.0)  # fmt: skip
    buffers = [args, x, *four(stored), *four(outs), *four(outs)]
    run(quant.lower(), f"matmul_{quant.lower()}_{tile}", mode, buffers, (sum(tiles), -(-len(x) // tile)), 32 * groups)
    return outs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("quant", ALL_TYPES)
def test_tiles_of_every_height_give_the_same_bytes(quant: str, mode: str) -> None:
    cols = 256 if block_size(quant)[0] == 256 else 96 if block_size(quant)[0] == 32 else 80
    (stored, values), (second, second_values) = matrix(quant, 21, cols, 1), matrix(quant, 5, cols, 2)
    x = np.random.default_rng(2).standard_normal((35, cols)).astype(np.float32)
    whole = matmul(quant, mode, [stored, second], x, 32, 2)
    close(whole[0], values, x)
    close(whole[1], second_values, x)
    if mode == "fast":
        for rows, tile, groups in (((0, 35), 8, 4), ((3, 20), 16, 1), ((34, 35), 8, 3)):
            part = matmul(quant, mode, [stored, second], x[slice(*rows)], tile, groups)
            for one, all_rows in zip(part, whole):
                assert one.tobytes() == np.ascontiguousarray(all_rows[slice(*rows)]).tobytes()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("quant", ALL_TYPES)
def test_embedding_rows_are_the_reference_values(quant: str, mode: str) -> None:
    cols = 256 if block_size(quant)[0] == 256 else 64
    stored, values = matrix(quant, 7, cols, 1)
    rows = np.zeros(3, [("token", "<i4"), ("position", "<i4"), ("session", "<u4")])
    rows["token"] = [6, 0, 3]
    expected = values[rows["token"]]
    for op, x in ((0, 0.0), (1, 3.0), (2, 1e-5)):
        out = np.full((3, cols), np.nan, np.float32)
        args = packed("EmbedArgs", cols=cols, row_bytes=stored.shape[1], out_stride=cols, op=op, x=x)
        run(quant.lower(), f"embed_{quant.lower()}", mode, [args, rows, stored, out], (3,), 64)
        if op == 2:
            norm = np.sqrt((expected**2).mean(1, keepdims=True) + x)
            np.testing.assert_allclose(out, expected / norm, rtol=1e-5, atol=1e-7)
        elif mode in EXACT_MODES:
            assert out.tobytes() == (expected.astype(np.float32) * np.float32(3.0 if op else 1.0)).tobytes()
