"""The quantizers' error beside llama.cpp's, recorded for rows of real models (tools/compare_quantizers.py --record), and
the types whose bits the gguf package's quantizer decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import quantize as package
from hypothesis import given, settings
from hypothesis import strategies as st
from quant_blocks import ALL_TYPES, block_size

from muser import _muser
from tools.compare_quantizers import TYPES, ratio, square_error

RECORD = np.load(Path(__file__).parent / "data" / "llama_cpp" / "quantize_rows.npz")
TENSORS = sorted(name for name in RECORD.files if name.count("/") == 1)
MADE = [name for name in ALL_TYPES if not name.startswith("IQ")]
WORSE = 1.02


@pytest.mark.parametrize("type_name", TYPES)
def test_the_error_is_at_most_that_of_llama_quantize(type_name: str) -> None:
    compared = 0
    for name in TENSORS:
        if f"{name}/{type_name}" not in RECORD:
            continue
        values = RECORD[name].astype(np.float32)
        ours = (square_error(type_name, _muser.testing.quantize(type_name, values.reshape(-1)), values) / values.size) ** 0.5
        size = float(np.sqrt(np.mean(values.astype(np.float64) ** 2)))
        assert ratio(ours, float(RECORD[f"{name}/{type_name}"]), size) <= WORSE, (name, ours)
        compared += 1
    assert compared >= 3


def awkward(rng: np.random.Generator) -> np.ndarray:
    """Rows of many sizes: ordinary ones, zeros, one value alone, outliers, constants, subnormals, the largest halves."""
    values = rng.standard_normal((400, 256)).astype(np.float32)
    values *= (2.0 ** rng.integers(-30, 12, (400, 1))).astype(np.float32)
    values[0] = 0.0
    values[1, 1:] = 0.0
    values[2, ::32] *= 1000.0
    values[3], values[4] = 0.25, -0.25
    values[5] *= np.float32(1e-38)
    values[6] = np.clip(values[6] * 1e9, -65504, 65504)
    values[7] = np.abs(values[7])
    values[8] = -np.abs(values[8])
    return values


@pytest.mark.parametrize("type_name", ["F16", "BF16", "Q8_0"])
def test_these_types_have_the_bits_of_the_gguf_package(type_name: str) -> None:
    values = awkward(np.random.default_rng(1))
    if type_name != "Q8_0":
        special = np.array([np.inf, -np.inf, np.nan, 65504, 65519, 65520, 1e38, 2.0**-25, 3 * 2.0**-26, -0.0],
                           np.float32)  # fmt: skip
        halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
        middles = (halves[1:] + halves[:-1]) / 2
        values = np.concatenate([values.reshape(-1), special, halves, -halves, middles])
    with np.errstate(all="ignore"):
        if type_name == "F16":
            expected = values.astype(np.float16).view(np.uint8)
        else:
            expected = package(values.reshape(-1, 32 if type_name == "Q8_0" else values.size), GGMLQuantizationType[type_name])
    assert _muser.testing.quantize(type_name, values.reshape(-1)) == expected.tobytes()


@pytest.mark.parametrize("type_name", MADE)
def test_no_value_lies_further_off_than_half_a_step_of_its_block(type_name: str) -> None:
    """The range of a block over its levels bounds a step, up to the second level of scales: a layout mistake in
    any bit puts a value far outside. Compared with the error of a plain linear grid over the 256 values."""
    values = awkward(np.random.default_rng(2))
    levels = 2 ** (int(type_name[1]) if type_name[0] == "Q" else {"F32": 24, "F16": 11, "BF16": 8}[type_name]) - 1
    blocks = _muser.testing.quantize(type_name, values.reshape(-1))
    assert len(blocks) == values.size // block_size(type_name)[0] * block_size(type_name)[1]
    back = _muser.testing.dequantize(type_name, blocks, values.size).reshape(values.shape)
    assert np.isfinite(back).all()
    spread = np.maximum(values.max(1), 0) - np.minimum(values.min(1), 0)
    off = np.abs(back - values).max(1)
    assert (off <= 1.3 * spread / levels + 2.0**-17).all(), np.flatnonzero(off > 1.3 * spread / levels + 2.0**-17)


@pytest.mark.parametrize("type_name", MADE)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_lies_on_the_grid_of_a_type_comes_back(type_name: str, seed: int) -> None:
    """Blocks made of made blocks are as good: a second pass loses next to nothing."""
    values = np.random.default_rng(seed).standard_normal(1024).astype(np.float32)
    once = _muser.testing.dequantize(type_name, _muser.testing.quantize(type_name, values), values.size)
    twice = _muser.testing.dequantize(type_name, _muser.testing.quantize(type_name, once), values.size)
    first, second = np.abs(once - values).mean(), np.abs(twice - once).mean()
    assert second <= 0.25 * first + 1e-6
