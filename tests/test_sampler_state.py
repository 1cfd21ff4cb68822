"""A sampler's state as bytes: what is restored goes on as what was saved, and nothing else is accepted."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampler_oracle import F32
from test_sampler_chain import STEPS

from muser import _muser
from muser.errors import ParameterError

ROW = np.random.default_rng(0).standard_normal(40).astype(F32) * 2


@pytest.mark.parametrize("parameters", STEPS, ids=str)
def test_restored_and_copied_samplers_go_on_alike(parameters):
    def sampler():
        return _muser.Sampler(**parameters, seed=11)

    ours = sampler()
    ours.accept(np.arange(30, dtype=np.int32) % 3)
    for n in (0, 1, 7, 500):  # more than one refill of the 624 words
        for _ in range(n):
            ours.sample(ROW)
        state, restored, copy = ours.state(), sampler(), ours.copy()
        restored.restore(state)
        assert restored.state() == copy.state() == state
        going_on = [[s.sample(ROW) for _ in range(40)] for s in (ours, restored, copy)]
        assert going_on[0] == going_on[1] == going_on[2]


def test_the_streams_are_pythons_generator():
    sampler = _muser.Sampler(xtc_probability=0.1, seed=77)
    for _ in range(400):
        sampler.sample(ROW)
    state = sampler.state()
    for stream, draws in enumerate([400, 400, 0, 0]):
        python = random.Random(77 + (stream << 64))
        for _ in range(draws):
            python.random()
        assert python.getstate()[1] == struct.unpack_from("<625I", state, 16 + stream * 2500)


def test_what_is_no_state_of_this_sampler_is_refused():
    sampler = _muser.Sampler(repetition_penalty=1.1, seed=1)
    sampler.accept(np.arange(9, dtype=np.int32))
    sampler.sample(ROW)
    state = sampler.state()
    other = _muser.Sampler(repetition_penalty=1.2, seed=1).state()
    other_seed = _muser.Sampler(repetition_penalty=1.1, seed=2).state()
    newer = state[:7] + b"\x02" + state[8:]
    for bad, why in [(b"", "not the state"), (b"x" * 99, "not the state"), (other, "parameters"), (other_seed, "parameters"),
                     (newer, "version"), (state[:-1], "damaged"), (state + b"\0", "damaged")]:  # fmt: skip
        with pytest.raises(ParameterError, match=why) as caught:
            sampler.restore(bad)
        assert caught.value.parameter == "state"
    assert sampler.state() == state


def sealed(body: bytes) -> bytes:
    """With the check sum that fits: FNV-1a."""
    value = 14695981039346656037
    for byte in body:
        value = (value ^ byte) * 1099511628211 % 2**64
    return body + struct.pack("<Q", value)


@settings(max_examples=60, deadline=None)
@given(at=st.integers(8, 200_000), byte=st.binary(min_size=1, max_size=9), cut=st.integers(0, 60))
def test_no_forged_state_harms_the_host(at, byte, cut):
    sampler = _muser.Sampler(dry_multiplier=1.0, mirostat=2, seed=1)
    sampler.accept(np.arange(9, dtype=np.int32))
    state = bytearray(sampler.state()[:-8])
    assert sealed(bytes(state)) == sampler.state()
    at %= len(state)
    state[at : at + len(byte)] = byte
    try:
        sampler.restore(sealed(bytes(state[: len(state) - cut])))
    except ParameterError as error:
        assert error.parameter == "state"
    sampler.sample(ROW)
