"""The native engine on toy models: prefill, decode, rewind, groups, and every refused argument."""

from __future__ import annotations

import numpy as np
import pytest
from engines import open_engine
from toy import write_toy

from muser.errors import (
    BusyError,
    CancelledError,
    ClosedError,
    ContextFullError,
    OutOfMemoryError,
    ParameterError,
)

IDS = np.random.default_rng(3).integers(0, 250, 90).astype(np.int32)


def load(path, **options):
    return open_engine(path, **{"slots": 2, "context": 128, "kv_dtype": "f16", **options})


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    path = tmp_path_factory.mktemp("engine") / "muse.gguf"
    write_toy(path, "muse-glimmer")
    return path


@pytest.fixture
def engine(toy):
    engine = load(toy)
    yield engine
    engine.close()


def test_prefill_then_decode_equals_one_prefill(engine):
    engine.prefill(0, IDS, None)
    whole = engine.logits(0)
    engine.prefill(1, IDS[:-1], None)
    engine.decode(1, int(IDS[-1]), None)
    assert whole.tobytes() == engine.logits(1).tobytes()
    assert engine.position(1) == len(IDS)
    assert engine.tokens(1).tolist() == IDS.tolist()


def test_logits_are_read_only_and_stay_what_they_were(engine):
    assert engine.logits(0) is None
    engine.prefill(0, IDS[:5], None)
    before = engine.logits(0)
    copy = before.copy()
    engine.decode(0, 7, None)
    assert np.array_equal(before, copy)
    with pytest.raises(ValueError):
        before[0] = 1.0


def test_rewind_repeats_the_same_bits(engine):
    engine.prefill(0, IDS[:40], None)
    engine.decode(0, 9, None)
    first = engine.logits(0)
    engine.prefill(0, IDS[40:80], None)
    engine.rewind(0, 40)
    assert engine.logits(0) is None
    engine.decode(0, 9, None)
    assert first.tobytes() == engine.logits(0).tobytes()


def test_rewind_refuses_what_is_not_there(engine):
    engine.prefill(0, IDS[:10], None)
    for to in (-1, 11):
        with pytest.raises(ParameterError) as error:
            engine.rewind(0, to)
        assert (error.value.parameter, error.value.value) == ("to", to)
    assert engine.position(0) == 10


def test_rewind_stops_where_the_rings_were_overwritten(tmp_path):
    path = tmp_path / "muse.gguf"
    write_toy(path, "muse-glimmer", context=2048)
    engine = load(path, slots=1, context=2048)
    ids = np.random.default_rng(4).integers(0, 250, 1500).astype(np.int32)
    engine.prefill(0, ids, None)
    with pytest.raises(ParameterError, match="oldest row"):
        engine.rewind(0, 100)
    assert engine.position(0) == 1500
    engine.rewind(0, 1500 - 512)
    engine.prefill(0, ids[1500 - 512 :], None)
    again = engine.logits(0)
    engine.rewind(0, 0)
    engine.prefill(0, ids, None)
    assert again.tobytes() == engine.logits(0).tobytes()


def test_decode_group_equals_solo(engine):
    engine.prefill(0, IDS[:20], None)
    engine.prefill(1, IDS[20:23], None)
    engine.decode_group([1, 0], [5, 6], None)
    packed = engine.logits(0), engine.logits(1)
    engine.rewind(0, 20)
    engine.rewind(1, 3)
    engine.decode(0, 6, None)
    engine.decode(1, 5, None)
    assert packed[0].tobytes() == engine.logits(0).tobytes()
    assert packed[1].tobytes() == engine.logits(1).tobytes()


def test_context_is_exact(engine):
    engine.prefill(0, np.resize(IDS, 128), None)
    with pytest.raises(ContextFullError) as error:
        engine.decode(0, 1, None)
    assert (error.value.position, error.value.capacity) == (128, 128)
    with pytest.raises(ContextFullError):
        engine.prefill(1, np.resize(IDS, 129), None)
    assert engine.position(1) == 0
    engine.prefill(1, np.resize(IDS, 127), None)
    engine.decode(1, 1, None)
    with pytest.raises(ContextFullError):
        engine.decode_group([1], [1], None)


@pytest.mark.parametrize("token", [-1, 10**6])
def test_token_ids_are_checked(engine, token):
    for call in (
        lambda: engine.decode(0, token, None),
        lambda: engine.prefill(0, np.array([1, token], np.int32), None),
        lambda: engine.decode_group([0, 1], [1, token], None),
    ):
        with pytest.raises(ParameterError) as error:
            call()
        assert (error.value.parameter, error.value.value) == ("token", token)
    assert engine.position(0) == 0


def test_group_shapes_are_checked(engine):
    engine.prefill(0, IDS[:3], None)
    with pytest.raises(ParameterError):
        engine.decode_group([], [], None)
    with pytest.raises(ParameterError):
        engine.decode_group([0], [1, 2], None)
    with pytest.raises(ParameterError):
        engine.decode_group([0, 7], [1, 2], None)
    with pytest.raises(BusyError):
        engine.decode_group([0, 0], [1, 2], None)
    assert engine.position(0) == 3


@pytest.mark.parametrize(
    "options, parameter",
    [
        (dict(slots=0), "slots"),
        (dict(slots=5), "slots"),
        (dict(context=0), "context"),
        (dict(context=10**9), "context"),
        (dict(threads=0), "threads"),
        (dict(kv_dtype="int3"), "kv_dtype"),
        (dict(device="tpu"), "device"),
        (dict(prefill_patience=0), "prefill_patience"),
    ],
)
def test_load_refuses(toy, options, parameter):
    with pytest.raises(ParameterError) as error:
        load(toy, **options)
    assert error.value.parameter == parameter


@pytest.mark.parametrize("timeout", [-1.0, float("nan")])
def test_timeout_is_checked(engine, timeout):
    with pytest.raises(ParameterError):
        engine.decode(0, 1, timeout)


def test_cancel_stops_a_prefill_and_keeps_the_session(engine):
    engine.cancel(0)
    with pytest.raises(CancelledError):
        engine.prefill(0, IDS, None)
    assert engine.position(0) == 0
    engine.clear_cancel(0)
    engine.prefill(0, IDS, None)
    assert engine.position(0) == len(IDS)


def test_closed_engine_says_so(toy):
    engine = load(toy)
    assert engine.close()
    assert engine.close()
    for call in (lambda: engine.decode(0, 1, None), lambda: engine.position(0), lambda: engine.stats()):
        with pytest.raises(ClosedError):
            call()


def test_memory_limit_is_honoured(toy):
    plan = load(toy).memory_plan()
    assert plan["total"] == plan["weights"] + 2 * plan["kv_per_slot"] + plan["workspace"] + plan["retained_logits"]
    load(toy, memory_limit=plan["total"]).close()
    with pytest.raises(OutOfMemoryError) as error:
        load(toy, memory_limit=plan["total"] - 1)
    assert (error.value.needed, error.value.available) == (plan["total"], plan["total"] - 1)
    assert str(error.value).endswith(f"available: {plan['total'] - 1} (memory_limit)")
    shorter = load(toy, context=None, memory_limit=plan["total"])
    assert 0 < shorter.context
    assert shorter.memory_plan()["total"] <= plan["total"]
