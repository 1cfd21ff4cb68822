"""Every step of the sampler chain equals the slow oracle, in any order and in any company."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampler_oracle import F32, INF, ORDER, Oracle, exact_exp, exact_log
from test_sampler import rows

from muser import _muser
from muser.errors import LogitsError, ParameterError

STEPS = [
    {"top_n_sigma": 1.0},
    {"top_n_sigma": 0.3, "top_k": 7},
    {"typical_p": 0.5},
    {"typical_p": 0.95, "temperature": 2.0, "samplers": ("temperature", "typical_p")},
    {"xtc_probability": 1.0, "xtc_threshold": 0.05},
    {"xtc_probability": 0.5, "xtc_threshold": 0.2, "min_p": 0.02},
    {"dynatemp_range": 0.7},
    {"temperature": 0.5, "dynatemp_range": 0.7, "dynatemp_exponent": 2.5, "top_k": 9},
    {"repetition_penalty": 1.3, "presence_penalty": 0.4, "frequency_penalty": 0.2, "penalty_last_n": 5},
    {"repetition_penalty": 0.5, "penalty_last_n": -1, "temperature": 0.0},
    {"frequency_penalty": -0.5, "temperature": 0.7, "samplers": ("temperature", "penalties")},
    {"dry_multiplier": 0.8, "dry_allowed_length": 1, "dry_penalty_last_n": 12},
    {"dry_multiplier": 3.0, "dry_allowed_length": 0, "dry_breakers": [[1], [2, 3]]},
    {"mirostat": 1},
    {"mirostat": 2},
    {"mirostat": 1, "mirostat_tau": 1.0, "mirostat_eta": 0.5, "temperature": 0.7},
    {"mirostat": 2, "mirostat_tau": 1.0, "mirostat_eta": 0.5, "repetition_penalty": 1.2},
    {"adaptive_target": 0.3},
    {"adaptive_target": 0.6, "adaptive_decay": 0.5, "min_p": 0.05, "temperature": 1.5},
    {"logit_bias": [(0, 2.5), (1, -INF)], "top_k": 3},
]


def prompt(seed, n):
    return np.random.default_rng(seed).integers(0, min(n, 4), 20).astype(np.int32)


def outcome(sampler, row):
    try:
        return sampler.sample(row)
    except LogitsError:  # biases left no token
        return None


@pytest.mark.parametrize("parameters", STEPS, ids=str)
@pytest.mark.parametrize("n", [2, 3, 65, 257])
def test_equals_the_oracle(parameters, n):
    for seed, row in enumerate(rows(np.random.default_rng(n), n)):
        ours, oracle = _muser.Sampler(**parameters, seed=seed), Oracle(**parameters, seed=seed)
        ours.accept(prompt(seed, n))
        oracle.accept(prompt(seed, n).tolist())
        for _ in range(5):
            assert outcome(ours, row) == outcome(oracle, row)


@st.composite
def chains(draw):
    """Any steps in any order, with what may stand beside them."""

    def maybe(values, off):
        return draw(st.just(off) | values)

    p = {
        "temperature": draw(st.floats(0.05, 5) | st.just(1.0) | st.just(0.0)),
        "dynatemp_range": maybe(st.floats(0, 2), 0.0),
        "dynatemp_exponent": draw(st.floats(0.1, 4)),
        "repetition_penalty": maybe(st.floats(0.3, 3), 1.0),
        "presence_penalty": maybe(st.floats(-3, 3), 0.0),
        "frequency_penalty": maybe(st.floats(-1, 1), 0.0),
        "penalty_last_n": draw(st.integers(-1, 9)),
        "dry_multiplier": maybe(st.floats(0, 4), 0.0),
        "dry_base": draw(st.floats(1, 3)),
        "dry_allowed_length": draw(st.integers(0, 4)),
        "dry_penalty_last_n": draw(st.integers(-1, 30)),
        "dry_breakers": draw(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), max_size=2)),
        "logit_bias": draw(st.lists(st.tuples(st.integers(0, 4), st.floats(-9, 9) | st.just(-INF)), max_size=2)),
        "samplers": tuple(draw(st.permutations(ORDER))),
        "seed": draw(st.integers(0, 2**64 - 1)),
    }
    if draw(st.booleans()):
        p["mirostat"] = draw(st.integers(1, 2))
        p["mirostat_tau"] = draw(st.floats(0, 8))
        p["mirostat_eta"] = draw(st.floats(0, 1))
        return p
    p |= {
        "top_n_sigma": maybe(st.floats(0, 3), 0.0),
        "top_k": draw(st.integers(0, 40)),
        "typical_p": maybe(st.floats(0.01, 1), 1.0),
        "top_p": maybe(st.floats(0.01, 1), 1.0),
        "min_p": maybe(st.floats(0, 1), 0.0),
        "xtc_probability": maybe(st.floats(0, 1), 0.0),
        "xtc_threshold": draw(st.floats(0.01, 0.6)),
        "adaptive_target": draw(st.just(-1.0) | st.floats(0, 1)),
        "adaptive_decay": draw(st.floats(0, 0.99)),
    }
    return p


@settings(max_examples=500, deadline=None)
@given(
    p=chains(),
    values=st.lists(st.floats(-30, 30, width=32) | st.sampled_from([-INF, 0.0, 5.0, INF, 3e38]), min_size=5, max_size=90),
    history=st.lists(st.integers(0, 4), max_size=40),
)
def test_any_chain_equals_the_oracle(p, values, history):
    row = np.array([*values, 1.0], F32)
    ours, oracle = _muser.Sampler(**p), Oracle(**p)
    ours.accept(np.array(history, np.int32))
    oracle.accept(history)
    for _ in range(6):
        assert outcome(ours, row) == outcome(oracle, row)
    if p.get("mirostat"):
        assert math.isfinite(oracle.mu)


@pytest.mark.parametrize(
    "parameters",
    [
        {"typical_p": 0.9}, {"top_n_sigma": 1.0}, {"dynatemp_range": 0.5}, {"mirostat": 1}, {"mirostat": 2},
        {"adaptive_target": 0.01}, {"xtc_probability": 1.0, "xtc_threshold": 1e-4}, {"top_p": 0.9, "temperature": 1.7},
        {"temperature": 1.7, "top_p": 0.9, "min_p": 1e-3, "samplers": ("temperature", "top_p", "min_p")},
        {"repetition_penalty": 1.2, "logit_bias": [(7, 20.0)], "typical_p": 0.5, "top_p": 0.9},
    ],
    ids=str,
)  # fmt: skip
def test_large_vocabularies_equal_the_oracle(parameters):
    """Rows that stay as they are for as long as they can; and masks over them."""
    rng = np.random.default_rng(6)
    flat = rng.standard_normal(5003).astype(F32) * 2
    peaked = flat.copy()
    peaked[rng.integers(5003, size=30)] += 9
    mask = rng.integers(2**32, size=157, dtype=np.uint32) & rng.integers(2**32, size=157, dtype=np.uint32)
    allowed = {t for t in range(5003) if mask[t // 32] >> np.uint32(t % 32) & np.uint32(1)}
    ours, oracle = _muser.Sampler(**parameters, seed=2), Oracle(**parameters, seed=2)
    for row in (flat, peaked, flat, peaked):
        assert ours.sample(row) == oracle.sample(row)
        assert ours.sample(row, mask) == oracle.sample(row, allowed)


def test_a_long_generation_equals_the_oracle():
    """Penalties and DRY remember what mirostat chose; the windows move."""
    p = {"mirostat": 2, "repetition_penalty": 1.1, "penalty_last_n": 16, "dry_multiplier": 1.0, "dry_penalty_last_n": 40}
    rng = np.random.default_rng(3)
    ours, oracle = _muser.Sampler(**p, seed=5), Oracle(**p, seed=5)
    for _ in range(300):
        row = rng.standard_normal(12).astype(F32) * 2
        assert ours.sample(row) == oracle.sample(row)


def test_every_parameter_changes_the_output_of_a_crafted_row():
    """A field that is accepted and then ignored would leave the tokens as they were."""
    few = np.array([4.0, 3.5, 3.0, 2.5, 2.0, 1.0, 0.0, -1.0], F32)
    many = np.append(few, np.linspace(2.9, 0.1, 24, dtype=F32))
    history = np.array([0, 1, 2, 0, 1, 2, 0, 1], np.int32)

    def drawn(**parameters):
        sampler = _muser.Sampler(**{"temperature": 1.5, **parameters})
        sampler.accept(history)
        row = many if "mirostat" in parameters else few
        return [sampler.sample(row) for _ in range(200)]

    on = {
        "dynatemp_range": {"dynatemp_range": 1.0},
        "repetition_penalty": {"repetition_penalty": 2.0},
        "presence_penalty": {"presence_penalty": 2.0},
        "frequency_penalty": {"frequency_penalty": 1.0},
        "dry_multiplier": {"dry_multiplier": 2.0},
        "mirostat": {"mirostat": 2, "mirostat_tau": 1.0},
        "adaptive_target": {"adaptive_target": 0.3},
        "xtc_probability": {"xtc_probability": 0.5, "xtc_threshold": 0.2},
    }
    for base, change in [
        ({}, {"seed": 1}), ({}, {"temperature": 0.5}), ({}, {"top_k": 3}), ({}, {"top_p": 0.5}), ({}, {"min_p": 0.3}),
        ({}, {"typical_p": 0.4}), ({}, {"top_n_sigma": 0.7}), ({}, {"logit_bias": [(5, 4.0)]}),
        *(({}, change) for change in on.values()),
        (on["dynatemp_range"], {"dynatemp_exponent": 3.0}),
        (on["repetition_penalty"], {"penalty_last_n": 2}),
        (on["dry_multiplier"], {"dry_base": 1.0}), (on["dry_multiplier"], {"dry_allowed_length": 5}),
        (on["dry_multiplier"], {"dry_penalty_last_n": 4}), (on["dry_multiplier"], {"dry_breakers": [[2]]}),
        (on["mirostat"], {"mirostat": 1}), (on["mirostat"], {"mirostat_tau": 2.0}), (on["mirostat"], {"mirostat_eta": 0.5}),
        (on["adaptive_target"], {"adaptive_target": 0.6}), (on["adaptive_target"], {"adaptive_decay": 0.1}),
        (on["xtc_probability"], {"xtc_probability": 1.0}), (on["xtc_probability"], {"xtc_threshold": 0.05}),
        ({"top_p": 0.6}, {"samplers": ("temperature", "top_p")}),
    ]:  # fmt: skip
        assert drawn(**base) != drawn(**{**base, **change}), (base, change)


def test_each_stream_gives_one_number_a_token_whatever_happens():
    """A row with one candidate needs no number, and takes it all the same; the features do not share any."""
    one, row = np.array([0.0], F32), np.arange(8, dtype=F32) / 4
    for p in ({}, {"xtc_probability": 0.5, "xtc_threshold": 0.1}, {"mirostat": 1}, {"mirostat": 2}, {"adaptive_target": 0.3}):
        ours, oracle = _muser.Sampler(**p, seed=8), Oracle(**p, seed=8)
        for n in range(20):
            where = one if n % 3 else row
            assert ours.sample(where) == oracle.sample(where)
    plain, with_xtc = _muser.Sampler(seed=1), _muser.Sampler(seed=1, xtc_probability=1e-9)
    assert [plain.sample(row) for _ in range(50)] == [with_xtc.sample(row) for _ in range(50)]


def test_logarithm_and_exponential():
    rng = np.random.default_rng(0)
    for x in [1e-300, 1e300, 0.9999999, *(rng.random(3000) * 3)]:
        assert exact_log(x) == pytest.approx(math.log(x), rel=1e-15, abs=1e-16)
    for x in (rng.random(3000) - 0.5) * 1400:
        assert exact_exp(x) == pytest.approx(math.exp(x), rel=1e-15)


def test_no_token_left_is_an_error_and_moves_nothing():
    row = np.zeros(3, F32)
    bans = [(t, -INF) for t in range(3)]
    sampler = _muser.Sampler(logit_bias=bans[:2], seed=4)
    before = sampler.state()
    with pytest.raises(LogitsError, match="logit_bias"):
        sampler.sample(row, np.array([0b011], np.uint32))
    with pytest.raises(ParameterError, match="logit_bias") as caught:
        sampler.sample(row[:1])
    assert caught.value.parameter == "logit_bias"
    assert sampler.state() == before
    assert sampler.sample(row) == 2


def test_suppressed_tokens():
    row = np.array([INF, 3.0, 2.0], F32)
    sampler = _muser.Sampler(temperature=0)
    sampler.suppress([0, 1, 77])
    assert sampler.sample(row) == 2
    assert sampler.copy().sample(row) == 2
    sampler.suppress([])
    assert sampler.sample(row) == 0


BAD = [
    ("dynatemp_range", -0.1), ("dynatemp_exponent", 0.0), ("typical_p", 0.0), ("typical_p", 1.1), ("top_n_sigma", -1.0),
    ("top_n_sigma", math.nan), ("xtc_probability", 1.1), ("xtc_threshold", 0.0), ("repetition_penalty", 0.0),
    ("presence_penalty", math.nan), ("frequency_penalty", INF), ("penalty_last_n", -2), ("dry_multiplier", -1.0),
    ("dry_base", 0.9), ("dry_allowed_length", -1), ("dry_penalty_last_n", -2), ("dry_sequence_breakers", [[]]),
    ("mirostat", 3), ("mirostat_tau", -1.0), ("mirostat_eta", math.nan), ("adaptive_target", 1.1), ("adaptive_decay", 1.0),
    ("logit_bias", [(-1, 0.0)]), ("logit_bias", [(0, INF)]), ("logit_bias", [(0, math.nan)]),
    ("samplers", ["top_q"]), ("samplers", ["top_k", "top_k"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD, ids=str)
def test_parameters_are_checked(name, value):
    with pytest.raises(ParameterError, match=name) as caught:
        _muser.Sampler(**{{"dry_sequence_breakers": "dry_breakers"}.get(name, name): value})
    assert caught.value.parameter == name


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"top_k": 4, "samplers": ["temperature"]}, "samplers"),
        ({"temperature": 0.5, "samplers": []}, "samplers"),
        ({"mirostat": 2, "top_p": 0.9}, "mirostat"),
        ({"mirostat": 1, "xtc_probability": 0.1}, "mirostat"),
        ({"mirostat": 1, "adaptive_target": 0.1}, "mirostat"),
    ],
    ids=str,
)
def test_nothing_that_was_asked_for_is_left_out_silently(parameters, name):
    with pytest.raises(ParameterError) as caught:
        _muser.Sampler(**parameters)
    assert caught.value.parameter == name
    _muser.Sampler(temperature=0, samplers=[])
