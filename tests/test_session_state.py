"""Rows that come from elsewhere: reused, forked, restored, rewound to. Whatever the way, the logits are the bytes that
a fresh engine computes from the session's tokens: on the CPU in one prefill, on Metal, where decode has kernels of its
own, by decoding what was decoded. A long random walk over four slots is compared with a state kept in
plain Python; the edges of windows, rings and chunks have cases of their own.
"""

from __future__ import annotations

import itertools
import random
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from engines import DEVICE, decode, open_engine, prefill
from toy import write_toy

from muser import _muser
from muser.errors import BusyError, CancelledError, ContextFullError, ParameterError

WINDOW = 16
RING = 576  # window + 512, in whole blocks of 64
CONTEXT = 1024
# With rings and without; and the planes whose rows are no plain array.
MODELS = (("muse-glimmer", "f16"), ("llama", "f16"), ("muse-glimmer", "q8_0"))
SLOTS = 4
# The walk's operations, the prompts' lengths and the bytes of the store; the simulator is slow.
STEPS, LENGTHS, CACHE = (5000, (1, 5, 64, 130, 511, 512, 600), 1_000_000)
if DEVICE == "metal":
    STEPS, LENGTHS, CACHE = (150, (1, 5, 64, 130, 600), 100_000)


@pytest.fixture(scope="module", params=MODELS, ids=" ".join)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    family, kv_dtype = request.param
    file = tmp_path_factory.mktemp("toy") / f"{family} {kv_dtype}.gguf"
    small = {"pattern": [True, False]} if family == "muse-glimmer" else {}
    write_toy(file, family, quant="Q8_0", context=CONTEXT, layers=2, **small)
    return file


def kv_of(path: Path) -> str:
    return path.stem.split()[1]


def fresh(path: Path, *, cache: int = 1 << 28, **options) -> _muser.Engine:
    return _muser.Engine(
        str(path), device=DEVICE, slots=SLOTS, context=CONTEXT, kv_dtype=kv_of(path), threads=1, prefill_patience=16,
        memory_limit=None, prefix_cache_bytes=cache, **options,
    )  # fmt: skip


class Cold:
    """Logits of a token sequence from an engine that appends and never reuses anything else. ``decoded``: whether each row was, in the
    order of the tokens; the CPU's bits do not depend on it."""

    def __init__(self, path: Path) -> None:
        self.engine = open_engine(path, context=CONTEXT, kv_dtype=kv_of(path))
        self.known: dict[tuple[tuple[int, bool], ...], bytes] = {}
        self.last: tuple[tuple[int, bool], ...] = ()  # what the engine holds

    def logits(self, tokens: list[int], decoded: list[bool]) -> bytes:
        key = tuple(zip(tokens, decoded if DEVICE == "metal" else [False] * len(tokens), strict=True))
        if key not in self.known:
            if key[: len(self.last)] != self.last:
                self.engine.reset(0)
                self.last = ()
            for by_decode, rows in itertools.groupby(key[len(self.last) :], key=lambda row: row[1]):
                ids = [token for token, _ in rows]
                if by_decode:
                    for token in ids:
                        decode(self.engine, token)
                else:
                    prefill(self.engine, ids)
            self.last, self.known[key] = key, self.engine.logits(0).tobytes()
        return self.known[key]


@pytest.fixture(scope="module")
def cold(path: Path) -> Cold:
    return Cold(path)


@dataclass
class Slot:
    """What a session must be."""

    tokens: list[int] = field(default_factory=list)
    decoded: list[bool] = field(default_factory=list)
    has_logits: bool = False
    written: int = 0  # rows since it was empty; a ring loses what it overwrites
    snapshot: tuple[np.ndarray, list[int], list[bool], bool, int] | None = None

    def lowest(self, rings: bool) -> int:
        return self.written - RING + WINDOW - 1 if rings and self.written > RING else 0


def test_random_walk(path: Path, cold: Cold) -> None:
    rings = path.stem.startswith("muse-glimmer")
    dice = random.Random(17)
    engine = fresh(path, cache=CACHE, staging=True)
    slots = [Slot() for _ in range(SLOTS)]
    # A few long prompts that share beginnings, so that reuse, the store and eviction all happen.
    trunk = [dice.randrange(256) for _ in range(CONTEXT)]
    forks = [trunk[:n] + [dice.randrange(256) for _ in range(CONTEXT - n)] for n in (0, 70, 300, 700)] + [trunk]
    done: dict[str, int] = {}
    reused = cancelled = 0

    def check(i: int) -> None:
        slot = slots[i]
        assert engine.tokens(i).tolist() == slot.tokens
        logits = engine.logits(i)
        assert (logits is not None) == slot.has_logits
        if logits is not None:
            assert logits.tobytes() == cold.logits(slot.tokens, slot.decoded), f"slot {i}, {len(slot.tokens)} tokens"

    for _ in range(STEPS):
        i = dice.randrange(SLOTS)
        slot = slots[i]
        action = dice.choice(["prefill"] * 3 + ["decode"] * 2 + ["rewind", "fork", "save", "restore", "shift", "cancel"] + ["release"] * 3)
        if action == "prefill":
            length = dice.choice(LENGTHS)
            story = dice.choice(forks)
            tokens = story[len(slot.tokens) : len(slot.tokens) + length]
            if not tokens:
                continue
            n = engine.prefill(i, np.array(tokens, np.int32), 60.0, True)
            assert n < len(tokens) and (n == 0 or not slot.tokens)
            reused += n
            slot.written = max(slot.written if slot.tokens else 0, len(slot.tokens) + len(tokens))
            # Reused rows too: on Metal none that was decoded is.
            slot.tokens, slot.decoded = slot.tokens + tokens, slot.decoded + [False] * len(tokens)
            slot.has_logits = True
        elif action == "decode":
            if len(slot.tokens) == CONTEXT:
                with pytest.raises(ContextFullError):
                    engine.decode(i, 3, 60.0)
                continue
            token = dice.randrange(256)
            engine.decode(i, token, 60.0)
            slot.tokens, slot.decoded = [*slot.tokens, token], [*slot.decoded, True]
            slot.written, slot.has_logits = max(slot.written, len(slot.tokens)), True
        elif action == "shift":  # leading tokens stay, and some of the newest
            keep = dice.randint(0, min(40, len(slot.tokens)))
            newest = slot.tokens[max(keep, len(slot.tokens) - dice.choice([1, 30, 130])) :]
            if not newest or keep + len(newest) == len(slot.tokens):
                continue
            slot.tokens = slot.tokens[:keep] + newest
            slot.decoded, slot.has_logits, slot.written = [False] * len(slot.tokens), True, len(slot.tokens)
            engine.shift(i, np.array(slot.tokens, np.int32), 60.0)
        elif action == "cancel":  # before a prompt, or at some moment of it: what is in is its beginning
            tokens = [dice.randrange(256) for _ in range(min(300, CONTEXT - 1 - len(slot.tokens)))]
            if not tokens:
                continue
            moment = threading.Timer(dice.choice([0, 0.001, 0.004]), engine.cancel, [i])
            moment.start()
            with suppress(CancelledError):
                engine.prefill(i, np.array(tokens, np.int32), 60.0, False)
            moment.join()
            with pytest.raises(CancelledError):
                engine.decode(i, 3, 60.0)
            engine.clear_cancel(i)
            after = engine.tokens(i).tolist()
            assert after == (slot.tokens + tokens)[: len(after)] and len(after) >= len(slot.tokens)
            if len(after) > len(slot.tokens):
                slot.has_logits = len(after) == len(slot.tokens) + len(tokens)
            cancelled += len(after) < len(slot.tokens) + len(tokens)
            slot.written = max(slot.written if slot.tokens else 0, len(after))
            slot.tokens, slot.decoded = after, slot.decoded + [False] * (len(after) - len(slot.tokens))
        elif action == "rewind":
            to = dice.randint(0, len(slot.tokens))
            if len(slot.tokens) > 40 and dice.random() < 0.5:
                to = len(slot.tokens) - dice.randint(0, 40)
            # A session that took rows over may have lost more than it wrote itself: only then a refusal may surprise.
            try:
                engine.rewind(i, to)
            except ParameterError as error:
                assert rings and 0 < to < len(slot.tokens), error
            else:
                assert to == 0 or to == len(slot.tokens) or to >= slot.lowest(rings)
                if to < len(slot.tokens):
                    slot.tokens, slot.decoded, slot.has_logits = slot.tokens[:to], slot.decoded[:to], False
                    slot.written = slot.written if to else 0
        elif action == "fork":
            j = dice.randrange(SLOTS)
            if i == j:
                with pytest.raises(BusyError):
                    engine.fork(i, j, 60.0)
                continue
            engine.fork(i, j, 60.0)
            copied = slots[j]
            copied.tokens, copied.decoded, copied.has_logits, copied.written = slot.tokens, slot.decoded, slot.has_logits, slot.written
            check(j)
        elif action == "save":
            slot.snapshot = (engine.snapshot(i), slot.tokens, slot.decoded, slot.has_logits, slot.written)
        elif action == "restore":
            source = dice.choice(slots).snapshot
            if source is None:
                continue
            engine.restore(i, source[0])
            slot.tokens, slot.decoded, slot.has_logits, slot.written = source[1:]
        else:
            engine.reset(i)
            slot.tokens, slot.decoded, slot.has_logits, slot.written = [], [], False, 0
        done[action] = done.get(action, 0) + 1
        check(i)
    assert min(done.values()) > STEPS // 100, done
    assert cancelled > done["cancel"] // 10
    assert reused > 2 * STEPS // 5
    stats = engine.stats()
    assert stats["reused_tokens"] == reused
    if DEVICE == "cpu":  # the simulator's walk is too short for it
        assert stats["prefix_cache_evicted"] > 0
    assert stats["prefix_cache_bytes"] <= stats["prefix_cache_limit"] == CACHE


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
