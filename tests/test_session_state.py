"""Rows that come from elsewhere: reused, forked, restored, rewound to, at the edges of windows, rings and chunks. Whatever the
way, the logits are the bytes that a fresh engine computes from the session's tokens. test_session_walk.py does all of it in any order.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engines import DEVICE, decode, open_engine, prefill
from toy import NARROW, write_toy

from muser import _muser
from muser.errors import ParameterError

WINDOW = 16
RING = 576  # window + 512, in whole blocks of 64
CONTEXT = 1024
# With rings and without; and the planes whose rows are no plain array.
MODELS = (("muse-glimmer", "f16"), ("llama", "f16"), ("muse-glimmer", "q8_0"))
SLOTS = 4


@pytest.fixture(scope="module", params=MODELS, ids=" ".join)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    family, kv_dtype = request.param
    file = tmp_path_factory.mktemp("toy") / f"{family} {kv_dtype}.gguf"
    small: dict[str, object] = {"pattern": [True, False]} if family == "muse-glimmer" else {}
    if DEVICE == "metal":
        small |= NARROW
    write_toy(file, family, quant="Q8_0", context=CONTEXT, layers=2, **small)
    return file


def kv_of(path: Path) -> str:
    return path.stem.split()[1]


def fresh(path: Path, *, cache: int = 1 << 28, **options) -> _muser.Engine:
    return _muser.Engine(
        str(path), device=DEVICE, slots=SLOTS, context=CONTEXT, kv_dtype=kv_of(path), threads=1, prefill_patience=16,
        memory_limit=None, prefix_cache_bytes=cache, **options,
    )  # fmt: skip


EDGES = (1, WINDOW - 1, WINDOW, WINDOW + 1, 63, 64, 65, 511, 512, 513, RING - 1, RING, RING + 1, RING + WINDOW, 1000)


def test_snapshot_at_every_edge_continues_as_if_nothing_had_happened(path: Path) -> None:
    tokens = np.random.default_rng(5).integers(0, 256, CONTEXT).tolist()
    one, other = open_engine(path, context=CONTEXT, kv_dtype=kv_of(path)), open_engine(path, context=CONTEXT, kv_dtype=kv_of(path), threads=2)
    position = 0
    for edge in EDGES:
        prefill(one, tokens[position:edge])
        position = edge
        snapshot = one.snapshot(0)
        other.restore(0, snapshot)
        assert other.tokens(0).tolist() == tokens[:edge]
        assert other.logits(0).tobytes() == one.logits(0).tobytes()
        assert other.snapshot(0).tobytes() == snapshot.tobytes()
        for n in range(min(20, CONTEXT - edge)):
            assert decode(other, n).tobytes() == decode(one, n).tobytes()
        one.rewind(0, edge)
        if edge > WINDOW:  # a restored session goes back as far as the saved one did
            other.rewind(0, edge)
            for engine in (one, other):
                engine.rewind(0, max(edge - 3, 0))
                prefill(engine, tokens[max(edge - 3, 0) : edge])
            assert one.logits(0).tobytes() == other.logits(0).tobytes()


def test_two_conversations_on_one_slot_pay_only_for_what_is_new(path: Path) -> None:
    engine = open_engine(path, context=CONTEXT, kv_dtype=kv_of(path))
    rng = np.random.default_rng(3)
    stories = [rng.integers(0, 256, CONTEXT).astype(np.int32) for _ in range(2)]
    length = [200, 300]
    for turn in range(5):
        for i, story in enumerate(stories):
            engine.reset(0)
            new = engine.prefill(0, story[: length[i]], 60.0, True)
            assert new == (0 if turn == 0 else length[i] - 50), (turn, i)
            length[i] += 50


def test_reuse_leaves_one_token_to_compute(path: Path) -> None:
    engine = open_engine(path, context=CONTEXT, kv_dtype=kv_of(path))
    tokens = np.arange(100, dtype=np.int32)
    assert engine.prefill(0, tokens, 60.0, True) == 0
    engine.reset(0)
    assert engine.reusable(0, tokens) == 99
    assert engine.prefill(0, tokens, 60.0, True) == 99
    assert engine.prefill(0, tokens, 60.0, True) == 0  # not at position 0: appended
    assert engine.position(0) == 200


def test_a_small_cache_keeps_the_slot_itself_and_none_computes_everything(path: Path) -> None:
    a, b = np.arange(200, dtype=np.int32), np.arange(200, dtype=np.int32)[::-1].copy()
    for cache, expected in ((1, [0, 199, 0, 0]), (0, [0, 0, 0, 0])):
        engine = fresh(path, cache=cache)
        found = []
        for prompt in (a, a, b, a):
            engine.reset(0)
            assert engine.reusable(0, prompt) == expected[len(found)]
            found.append(engine.prefill(0, prompt, 60.0, True))
        assert found == expected
        assert engine.stats()["prefix_cache_bytes"] == 0


def test_a_damaged_snapshot_changes_nothing(path: Path) -> None:
    engine = open_engine(path, context=CONTEXT, kv_dtype=kv_of(path))
    prefill(engine, range(40))
    snapshot = engine.snapshot(0)
    before = snapshot.tobytes(), engine.logits(0).tobytes()
    damaged = [snapshot[:n] for n in range(0, len(snapshot), max(1, len(snapshot) // 64))]
    damaged.append(np.append(snapshot, np.uint8(0)))
    for word in range(6 + 2 * 2 + 40):  # every count and every token: huge, negative, off by one
        for value in (0xFFFFFFFF, 0x7FFFFFFF, 0x80000000):
            changed = snapshot.copy()
            changed.view(np.uint32)[word : word + 1] = value
            damaged.append(changed)
    for bytes_ in damaged:
        with pytest.raises(ParameterError, match="snapshot"):
            engine.restore(0, bytes_)
    assert (engine.snapshot(0).tobytes(), engine.logits(0).tobytes()) == before
    with pytest.raises(ParameterError, match=r"rows of \d+ bytes in plane 0, not"):
        open_engine(path, context=CONTEXT, kv_dtype="f32").restore(0, snapshot)
    with pytest.raises(ParameterError, match="the context is 32"):
        open_engine(path, context=32, kv_dtype=kv_of(path)).restore(0, snapshot)


def test_an_empty_session_is_saved_and_restored(path: Path) -> None:
    engine = open_engine(path, context=CONTEXT, kv_dtype=kv_of(path))
    empty = engine.snapshot(0)
    prefill(engine, range(40))
    engine.restore(0, empty)
    assert engine.position(0) == 0 and engine.logits(0) is None
    assert prefill(engine, range(10)).tobytes() == prefill(open_engine(path, context=CONTEXT, kv_dtype=kv_of(path)), range(10)).tobytes()
