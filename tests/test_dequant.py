"""Reference dequantizers: every type gives the same float32 bits as the gguf package."""

from __future__ import annotations

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from quant_blocks import ALL_TYPES, HALF_FIELDS, block_size, random_blocks

from muser import _muser
from muser.errors import ParameterError

# Zero of both signs, the largest and smallest normals, subnormals down to the last bit, ordinary sizes.
SCALES = np.array([0.0, -0.0, 1.0, -1.0, 65504.0, -65504.0, 2.0**-14, -(2.0**-14), 2.0**-24, -(2.0**-24),
                   3 * 2.0**-20, -0.0137, 0.37, 12.5])  # fmt: skip


def ours(type_name: str, blocks: np.ndarray) -> np.ndarray:
    n_values = blocks.size // block_size(type_name)[1] * block_size(type_name)[0]
    return _muser.testing.dequantize(type_name, blocks.tobytes(), n_values)


def assert_same_bits(type_name: str, blocks: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        expected = np.asarray(oracle(blocks, GGMLQuantizationType[type_name]), dtype=np.float32).reshape(-1)
    got = ours(type_name, blocks)
    assert got.dtype == np.float32 and got.shape == expected.shape
    nan = np.isnan(expected)
    assert np.array_equal(nan, np.isnan(got))
    different = np.flatnonzero((got.view(np.uint32) != expected.view(np.uint32)) & ~nan)
    assert different.size == 0, (different[:5], got[different[:5]], expected[different[:5]])


@pytest.mark.parametrize("type_name", sorted(HALF_FIELDS))
def test_quantized_types_equal_the_gguf_package_bit_for_bit(type_name: str) -> None:
    rng = np.random.default_rng(1)
    d, m = (pair.ravel() for pair in np.meshgrid(SCALES, SCALES))
    assert_same_bits(type_name, random_blocks(type_name, d.size, rng, d, m))
    n = 300
    d, m = rng.normal(0, 1, n) * 2.0 ** rng.integers(-24, 10, n), rng.normal(0, 1, n)
    assert_same_bits(type_name, random_blocks(type_name, n, rng, d, m))


@pytest.mark.parametrize("type_name", sorted(HALF_FIELDS))
def test_every_single_bit_of_a_block_lands_where_the_package_puts_it(type_name: str) -> None:
    size = block_size(type_name)[1]
    d_at, m_at, _ = HALF_FIELDS[type_name]
    one_bit = np.zeros((size * 8, size), dtype=np.uint8)
    one_bit[np.arange(size * 8), np.arange(size * 8) // 8] = 1 << (np.arange(size * 8) % 8)
    scales = {d_at, d_at + 1} | (set() if m_at is None else {m_at, m_at + 1})
    blocks = one_bit[[i for i in range(size * 8) if i // 8 not in scales]]
    for background in (0, 255):
        flipped = blocks ^ np.uint8(background)
        for at, value in ((d_at, 0.75), (m_at, -0.3125)):
            if at is not None:
                flipped[:, at : at + 2] = np.array([value], "<f2").view(np.uint8)
        assert_same_bits(type_name, flipped)


@pytest.mark.parametrize("type_name", ["F16", "BF16"])
def test_all_65536_halves(type_name: str) -> None:
    assert_same_bits(type_name, np.arange(65536, dtype="<u2").view(np.uint8))


def test_f32_is_a_copy_of_the_bits() -> None:
    bits = np.random.default_rng(2).integers(0, 2**32, 4096, dtype=np.uint32)
    assert np.array_equal(ours("F32", bits.view(np.uint8)).view(np.uint32), bits)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(HALF_FIELDS)), st.data())
def test_any_block_of_any_bytes(type_name: str, data: st.DataObject) -> None:
    size = block_size(type_name)[1]
    raw = data.draw(st.binary(min_size=size, max_size=size))
    assert_same_bits(type_name, np.frombuffer(raw, np.uint8).reshape(1, size))


@pytest.mark.parametrize("type_name", ALL_TYPES)
def test_wrong_lengths_are_parameter_errors(type_name: str) -> None:
    elements, size = block_size(type_name)
    with pytest.raises(ParameterError) as error:
        _muser.testing.dequantize(type_name, bytes(size + 1), elements)
    assert error.value.parameter == "data" and error.value.value == size + 1
    with pytest.raises(ParameterError):
        _muser.testing.dequantize(type_name, b"", -elements)
    assert _muser.testing.dequantize(type_name, b"", 0).shape == (0,)


def test_an_unknown_type_is_a_parameter_error() -> None:
    with pytest.raises(ParameterError, match="Q9_9"):
        _muser.testing.dequantize("Q9_9", b"", 0)
