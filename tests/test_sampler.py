"""The sampler equals a slow, readable oracle (tests/sampler_oracle.py): same filters, same integers, same random
numbers. Here: the four plain parameters, rows, masks, the stream, and what is refused. The rest of the chain is in
test_sampler_chain.py, saved states in test_sampler_state.py.
"""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampler_oracle import F32, INF, Oracle, weights

from muser import _muser
from muser.errors import LogitsError, ParameterError


def rows(rng, n):
    """Rows that people meet and rows that break samplers."""
    normal = rng.standard_normal(n).astype(F32) * 3
    yield normal
    yield np.round(normal)  # many ties
    yield np.zeros(n, F32)  # nothing but ties
    yield np.sort(normal)
    yield np.sort(normal)[::-1].copy()
    one_hot = np.full(n, -INF, F32)
    one_hot[rng.integers(n)] = -3.5
    yield one_hot
    masked = normal.copy()
    masked[rng.random(n) < 0.9] = -INF
    masked[rng.integers(n)] = 1.0
    yield masked
    certain = normal.copy()
    certain[rng.integers(n, size=3)] = INF
    yield certain
    far = normal.copy()
    far[rng.integers(n)] += 200
    yield far
    yield normal * F32(1e37)


def survivors(row, **parameters):
    oracle = Oracle(**parameters)
    oracle.sample(row)
    return sorted(oracle.set)


PARAMETERS = [
    {},
    {"temperature": 0.0},
    {"temperature": 0.7},
    {"temperature": 2.5},
    {"temperature": 1e-6},
    {"temperature": 1e-45},
    {"temperature": 1e30},
    {"top_k": 1},
    {"top_k": 2, "temperature": 1.5},
    {"top_k": 40},
    {"top_k": -1},
    {"top_k": 2**31 - 1},
    {"top_p": 1e-9},
    {"top_p": 0.3},
    {"top_p": 0.95},
    {"top_p": 0.999999},
    {"min_p": 0.05},
    {"min_p": 1.0},
    {"min_p": 1e-9, "temperature": 3.0},
    {"top_k": 64, "top_p": 0.95},
    {"top_k": 20, "top_p": 0.8, "min_p": 0.1, "temperature": 0.6},
    {"top_p": 0.9, "min_p": 0.02, "temperature": 1.3},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 257])
def test_equals_the_oracle(parameters, n):
    rng = np.random.default_rng(n)
    for seed, row in enumerate(rows(rng, n)):
        ours, oracle = _muser.Sampler(**parameters, seed=seed), Oracle(**parameters, seed=seed)
        for _ in range(5):
            assert ours.sample(row) == oracle.sample(row)


@settings(max_examples=300, deadline=None)
@given(
    row=st.lists(st.floats(-30, 30, width=32) | st.sampled_from([-INF, 0.0, 5.0]), min_size=1, max_size=90),
    temperature=st.floats(0.05, 10),
    top_k=st.integers(0, 100),
    top_p=st.floats(0.01, 1),
    min_p=st.floats(0, 1),
    seed=st.integers(0, 2**64 - 1),
)
def test_equals_the_oracle_on_anything(row, temperature, top_k, top_p, min_p, seed):
    row = np.array([*row, 1.0], F32)
    parameters = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
    ours, oracle = _muser.Sampler(**parameters), Oracle(**parameters)
    assert [ours.sample(row) for _ in range(4)] == [oracle.sample(row) for _ in range(4)]


@pytest.mark.parametrize("parameters", [{"top_k": 64, "top_p": 0.95}, {"top_p": 0.9}, {"min_p": 0.1}, {"top_k": 5000}], ids=str)
def test_survivors_of_a_large_vocabulary(parameters):
    """Every survivor is drawn and nothing else is, when the temperature makes them all equally likely."""
    row = np.random.default_rng(5).standard_normal(20_000).astype(F32) * 4
    expected = survivors(row, **parameters)
    sampler = _muser.Sampler(**parameters, temperature=1e30, seed=1)
    stream = random.Random(1)
    for _ in range(300):  # equal weights: the draw picks a rank directly
        assert sampler.sample(row) == expected[int(stream.random() * 2**53) * len(expected) >> 53]


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 1])
def test_the_stream_is_pythons_random(seed):
    """2^17 equal logits read 17 bits of every draw."""
    row = np.zeros(1 << 17, F32)
    sampler, stream = _muser.Sampler(seed=seed), random.Random(seed)
    for _ in range(400):  # more than one refill of the 624 words
        assert sampler.sample(row) == int(stream.random() * (1 << 17))


def test_weights_are_the_exponential():
    """The float32 exponential against float64, through the odds of two tokens."""
    for x in np.linspace(-21.5, 0, 4000, dtype=F32):
        exact = 2**30 * math.exp(float(x))
        assert abs(weights([x])[0] - exact) <= 1 + 3e-7 * exact


def test_distribution_matches_softmax():
    logits = np.array([1.0, 0.0, 2.0, -1.0, 0.5], F32)
    expected = np.exp(logits / 0.8) / np.exp(logits / 0.8).sum()
    sampler = _muser.Sampler(temperature=0.8, seed=3)
    n = 40_000
    counts = np.bincount([sampler.sample(logits) for _ in range(n)], minlength=5)
    assert np.abs(counts / n - expected).max() < 5 * math.sqrt(0.25 / n)


def test_temperature_zero_is_the_first_maximum_and_draws_nothing():
    row = np.zeros(300, F32)
    row[[131, 77, 290]] = 4.0
    assert _muser.Sampler(temperature=0, top_k=3, top_p=0.1, min_p=0.5).sample(row) == 77
    row[290] = INF
    assert _muser.Sampler(temperature=0).sample(row) == 290
    assert _muser.Sampler(temperature=0).sample(np.array([-INF, -INF, -9.0], F32)) == 2


@pytest.mark.parametrize("n", [1, 64, 100, 1000])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nan_is_refused_and_leaves_the_stream_alone(n, temperature):
    rng = np.random.default_rng(2)
    good = rng.standard_normal(n).astype(F32)
    for at in {0, n // 2, n - 1}:
        bad = good.copy()
        bad[at] = np.nan
        sampler, fresh = (_muser.Sampler(temperature=temperature, seed=9) for _ in range(2))
        with pytest.raises(ParameterError, match=rf"logits\[{at}\] is NaN") as caught:
            sampler.sample(bad)
        assert caught.value.parameter == "logits"
        assert caught.value.index == at
        assert sampler.sample(good) == fresh.sample(good)


def test_rows_without_a_token_are_refused():
    for row in (np.full(70, -INF, F32), np.zeros(0, F32)):
        for temperature in (0, 1):
            with pytest.raises(ParameterError) as caught:
                _muser.Sampler(temperature=temperature).sample(row)
            assert caught.value.parameter == "logits"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1), ("temperature", INF), ("temperature", math.nan),
        ("top_k", -2),
        ("top_p", 0.0), ("top_p", 1.01), ("top_p", -1), ("top_p", math.nan),
        ("min_p", -0.01), ("min_p", 1.01), ("min_p", math.nan),
    ],
)  # fmt: skip
def test_parameters_are_checked(name, value):
    with pytest.raises(ParameterError, match=name) as caught:
        _muser.Sampler(**{name: value})
    assert caught.value.parameter == name


def test_every_parameter_matters():
    """A field that is accepted and then ignored would leave the survivors of this row unchanged."""
    row = np.array([4.0, 3.0, 2.0, 1.0, 0.0], F32)

    def drawn(**parameters):
        sampler = _muser.Sampler(**parameters)
        return [sampler.sample(row) for _ in range(200)]

    plain = drawn(temperature=2.0)
    for change in ({"temperature": 1.0}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.3}, {"seed": 1}):
        assert drawn(**{"temperature": 2.0, **change}) != plain


@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(1, 150),
    allowed=st.sets(st.integers(0, 149), min_size=1),
    parameters=st.sampled_from(PARAMETERS),
    seed=st.integers(0, 9),
)
def test_a_mask_is_minus_infinity_elsewhere(n, allowed, parameters, seed):
    """Bits beyond the vocabulary mean nothing."""
    mask = np.zeros((n + 31) // 32, np.uint32)
    for token in allowed | {n + 3}:
        if token // 32 < len(mask):
            mask[token // 32] |= np.uint32(1 << token % 32)
    row = np.random.default_rng(seed).standard_normal(n).astype(F32) * 4
    masked = np.where([t in allowed for t in range(n)], row, F32(-INF))
    ours, oracle = _muser.Sampler(**parameters, seed=seed), Oracle(**parameters, seed=seed)
    if masked.max() == -INF:
        with pytest.raises(LogitsError, match="allow"):
            ours.sample(row, mask)
    else:
        assert [ours.sample(row, mask) for _ in range(4)] == [oracle.sample(masked) for _ in range(4)]


def test_a_mask_is_checked_and_hides_no_nan():
    row = np.zeros(65, F32)
    for words in (0, 2, 4):
        with pytest.raises(ParameterError, match="3 words") as caught:
            _muser.Sampler().sample(row, np.zeros(words, np.uint32))
        assert caught.value.parameter == "mask"
    row[7] = np.nan
    with pytest.raises(ParameterError, match="NaN"):
        _muser.Sampler().sample(row, np.array([1, 0, 0], np.uint32))
