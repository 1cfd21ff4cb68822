"""Fail closed: a failed pass installs nothing, and after it the model says why until it is closed."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from engines import DEVICE
from toy import write_toy

from muser import _muser
from muser.errors import ClosedError, DeviceError, UnhealthyError

IDS = np.arange(40, dtype=np.int32)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    path = tmp_path_factory.mktemp("latch") / "muse.gguf"
    write_toy(path, "muse-glimmer")
    return str(path)


@pytest.mark.parametrize("after_running", [False, True])
def test_a_failed_prefill_installs_nothing_and_latches(toy, after_running):
    engine = _muser.testing.faulty_engine(toy, device=DEVICE, slots=2, commit=2, after_running=after_running)
    engine.prefill(0, IDS, None)
    before = engine.tokens(0).tolist(), engine.position(0), engine.logits(0).tobytes()
    with pytest.raises(DeviceError, match="injected fault"):
        engine.prefill(0, IDS, None)
    assert (engine.tokens(0).tolist(), engine.position(0), engine.logits(0).tobytes()) == before
    assert "injected fault" in engine.unhealthy_cause()
    for call in (
        lambda: engine.prefill(1, IDS, None),
        lambda: engine.decode(0, 1, None),
        lambda: engine.decode_group([0, 1], [1, 1], None),
    ):
        with pytest.raises(UnhealthyError) as error:
            call()
        assert "injected fault" in error.value.cause
    assert engine.position(1) == 0
    assert engine.close()
    with pytest.raises(ClosedError):
        engine.decode(0, 1, None)


def test_a_failed_group_installs_no_row_and_everyone_gets_the_same_cause(toy):
    engine = _muser.testing.faulty_engine(toy, device=DEVICE, slots=4, commit=5, all_later=True)
    for slot in range(4):
        engine.prefill(slot, IDS[: 5 + slot], None)
    causes: list[str] = []

    def drive(slot: int) -> None:
        try:
            for _ in range(3):
                engine.decode(slot, 1, 10.0)
        except (DeviceError, UnhealthyError) as error:
            causes.append(str(error))

    threads = [threading.Thread(target=drive, args=(slot,)) for slot in range(4)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert time.monotonic() - start < 25
    assert len(causes) == 4 and all("injected fault" in cause for cause in causes)
    assert [engine.position(slot) for slot in range(4)] == [5, 6, 7, 8]


def test_loading_again_is_the_way_back(toy):
    broken = _muser.testing.faulty_engine(toy, device=DEVICE, slots=1, commit=1)
    with pytest.raises(DeviceError):
        broken.prefill(0, IDS, None)
    broken.close()
    fresh = _muser.testing.faulty_engine(toy, device=DEVICE, slots=1, commit=0)
    fresh.prefill(0, IDS, None)
    assert fresh.unhealthy_cause() is None
    assert fresh.position(0) == len(IDS)
