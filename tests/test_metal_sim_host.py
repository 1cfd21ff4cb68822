"""The fake Metal runs host code: what it computes, how it fails, what it counts, and that nothing is left behind.

The host is tests/metal_sim/host/example.mm. That faults of a host are found is tests/test_metal_sim_mutations.py.
"""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from metal_sim import example_host, fake_metal
from metal_sim.example_host import HostError
from metal_sim.tools import require_clang

require_clang()
X = np.random.default_rng(2).standard_normal((2, example_host.BLOCKS * 32)).astype("f4")


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Every test ends without findings and without a live object."""
    before = fake_metal.live_objects()
    fake_metal.take_reports()
    yield
    assert fake_metal.settled_objects(before) == before, fake_metal.live_classes()
    assert not fake_metal.take_reports()


@pytest.fixture
def host():
    opened = example_host.Host()
    yield opened
    opened.close()


@pytest.mark.parametrize("vectors", [1, 2])
def test_values(host, vectors):
    expected = host.expected(X[:vectors])
    assert np.abs(host.forward(X[:vectors]) - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize(
    "settings",
    [{"check": 0}, {"check": 0, "fast_math": 1}, {"shuffle_reductions": 1, "seed": 9}, {"residency_sets": 0}],
    ids=str,
)
def test_every_mode(settings):
    with fake_metal.setting(**settings):
        host = example_host.Host()
        for _ in range(3):
            assert np.allclose(host.forward(X), host.expected(X), rtol=1e-3, atol=1e-3)
        host.close()


def test_pipelines_allow_different_numbers_of_threads():
    for seed in range(1, 9):
        with fake_metal.setting(seed=seed):
            host = example_host.Host()
            assert np.allclose(host.forward(X), host.expected(X), rtol=1e-4, atol=1e-4)
            host.close()


def test_the_ledger(host):
    fake_metal.clear_counters()
    with fake_metal.setting(trace=1):
        host.forward(X)
    counted = {name: fake_metal.get(name) for name in ("command_buffers", "encoders", "dispatches", "barriers")}
    assert counted == {"command_buffers": 1, "encoders": 1, "dispatches": 2, "barriers": 1}
    trace = [line.split(" ")[:2] for line in fake_metal.take_trace()]
    assert trace == [
        ["command_buffer"], ["encoder", "concurrent"], ["dispatch", "rms_norm"], ["barrier"], ["dispatch", "matvec_x2"]
    ]  # fmt: skip
    assert fake_metal.get("set_bytes") == 16


def test_shapes_alone_can_be_counted():
    """With ``execute`` off, nothing runs and everything is counted: for models that are too large to run here."""
    with fake_metal.setting(execute=0):
        host = example_host.Host()
        fake_metal.clear_counters()
        host.forward(X)
        assert fake_metal.get("dispatches") == 2 and fake_metal.get("threadgroups") == 0
        host.close()


def test_a_command_buffer_that_fails(host):
    with fake_metal.setting(fail_in=1, fail_code=8), pytest.raises(HostError, match="a failure that the test asked for"):
        host.forward(X)
    assert np.allclose(host.forward(X), host.expected(X), rtol=1e-4, atol=1e-4)


def test_a_command_buffer_that_never_completes(host):
    with fake_metal.setting(hang_in=1):
        start = time.monotonic()
        with pytest.raises(HostError, match="the GPU did not answer"):
            host.forward(X, timeout_ms=50)
        assert time.monotonic() - start < 25
    host.close()  # while it still hangs: what it uses must live on
    fake_metal.put("release_hung", 1)


def test_execution_is_asynchronous_and_takes_its_time(host):
    with fake_metal.setting(hang_in=1):
        thread = threading.Thread(target=host.forward, args=(X, 20000))
        thread.start()
        time.sleep(0.05)
        assert thread.is_alive()
        fake_metal.put("release_hung", 1)
        thread.join(30)
        assert not thread.is_alive()


def test_a_source_that_does_not_compile_gives_an_error(monkeypatch):
    monkeypatch.setattr(example_host, "flattened", lambda name: b"kernel void broken(;")
    with pytest.raises(HostError, match="compiling: .*"):
        example_host.Host()


def test_a_function_that_is_not_there_gives_an_error(monkeypatch):
    whole = example_host.flattened
    monkeypatch.setattr(example_host, "flattened", lambda name: whole(name).replace(b"rms_norm", b"rms_other"))
    with pytest.raises(HostError, match="finding a function: no function rms_norm"):
        example_host.Host()


def test_what_the_device_refuses_it_says(tmp_path):
    with fake_metal.setting(max_buffer_length=16384 - 1):
        with pytest.raises(HostError, match="the matrix cannot be bound"):
            example_host.Host()
        assert "is over maxBufferLength" in fake_metal.take_reports()[0]
    with fake_metal.setting(working_set=1000):
        example_host.Host().close()
        assert "more is made resident than recommendedMaxWorkingSetSize" in fake_metal.take_reports()[0]
