"""A random walk over four slots: prompts, single tokens, greedy ones, rewinds, forks, snapshots, shifts, cancels and releases
in any order. After every operation the session is compared with one kept in plain Python, and its logits with the bytes that a
fresh engine computes from the same tokens: on the CPU in one prefill, on Metal, where decode has kernels of its own, by
decoding what was decoded. The edges of windows, rings and chunks have cases of their own in test_session_state.py.

MUSER_WALK_STEPS operations for each of MUSER_WALK_SEEDS ("17" or "1,2,3"); docs/metal.md has the command and the result
of a long one on the simulator.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from engines import DEVICE, PATIENCE, decode, open_engine, prefill
from toy import NARROW, write_toy
from toy_vocab import Vocab

from muser import _muser
from muser.errors import BusyError, CancelledError, ContextFullError, ParameterError

SLOTS = 4
WINDOW = 16
RING = 576  # window + 512, in whole blocks of 64
# With rings and without; and the planes whose rows are no plain array.
MODELS = (("muse-glimmer", "f16"), ("llama", "f16"), ("muse-glimmer", "q8_0"))
STEPS = int(os.environ.get("MUSER_WALK_STEPS") or (5000 if DEVICE == "cpu" else 600))
pytestmark = [pytest.mark.timeout(0)] if "MUSER_WALK_STEPS" in os.environ else []
SEEDS = [int(seed) for seed in (os.environ.get("MUSER_WALK_SEEDS") or "17").split(",")]
OPERATIONS = ["prefill"] * 3 + ["decode"] * 2 + ["greedy", "rewind", "fork", "save", "restore", "shift", "cancel"] + ["release"] * 3


@dataclass(frozen=True)
class Scale:
    """What a device has time for."""

    context: int
    lengths: tuple[int, ...]  # of prompts
    branches: tuple[int, ...]  # where prompts part from a common one
    cancelled: int  # tokens of a prompt that is cancelled
    cache: int  # bytes of the prefix store: an entry or a few
    tokens: int  # of the vocabulary
    toy: dict[str, object]
    engine: dict[str, object]


SCALE = Scale(1024, (1, 5, 64, 130, 511, 512, 600), (0, 70, 300, 700), 300, 1_000_000, 256, {}, {})
if DEVICE == "metal":  # and passes of 64 rows
    lengths = (1, 5, 17, 64, 65, 130, 200, RING, RING + 8)
    SCALE = Scale(640, lengths, (0, 20, 70, 300), 150, 200_000, 32, NARROW, {"longest_prefill": 0.001})


@pytest.fixture(scope="module", params=MODELS, ids=" ".join)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    family, kv_dtype = request.param
    file = tmp_path_factory.mktemp("toy") / f"{family} {kv_dtype}.gguf"
    slides = {"pattern": [True, False], "window": WINDOW} if family == "muse-glimmer" else {}
    names = [f"<{i}>" for i in range(SCALE.tokens)]
    vocab = None if DEVICE == "cpu" else Vocab("gpt2", "llama4", names, [1] * len(names), [], [], {"bos": 0, "eos": 1})
    write_toy(file, family, quant="Q8_0", vocab=vocab, context=SCALE.context, layers=2, positive_head=True, **slides, **SCALE.toy)
    return file


def kv_of(path: Path) -> str:
    return path.stem.split()[1]


class Cold:
    """Logits of token sequences from an engine that only appends and reuses nothing. ``decoded``: whether each row was; the
    CPU's bits do not depend on it."""

    def __init__(self, path: Path) -> None:
        self.engine = open_engine(path, slots=SLOTS, context=SCALE.context, kv_dtype=kv_of(path))
        self.known: dict[bytes, bytes] = {}
        self.held: dict[int, bytes] = dict.fromkeys(range(SLOTS), b"")  # what each slot has; longest unused first

    def logits(self, tokens: list[int], decoded: list[bool]) -> bytes:
        rows = np.array(tokens, np.uint16) * 2 + (np.array(decoded) if DEVICE == "metal" else False)
        key = rows.astype(np.uint16).tobytes()
        if key not in self.known:
            slot = max(self.held, key=lambda slot: len(self.held[slot]) if key.startswith(self.held[slot]) else -1)
            if not key.startswith(self.held[slot]):
                slot = next(iter(self.held))
                self.held[slot] = b""
            if not self.held[slot]:
                self.engine.reset(slot)
            at = len(self.held.pop(slot)) // 2
            for by_decode, run in itertools.groupby(rows[at:].tolist(), key=lambda row: row % 2):
                ids = [row // 2 for row in run]
                if by_decode:
                    for token in ids:
                        decode(self.engine, token, slot=slot)
                else:
                    prefill(self.engine, ids, slot=slot)
            self.held[slot], self.known[key] = key, self.engine.logits(slot).tobytes()
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

    def lowest(self, rings: bool) -> int:
        return self.written - RING + WINDOW - 1 if rings and self.written > RING else 0

    def become(self, tokens: list[int], decoded: list[bool], has_logits: bool, written: int) -> None:
        self.tokens, self.decoded, self.has_logits, self.written = tokens, decoded, has_logits, written

    def append(self, tokens: list[int], by_decode: bool, has_logits: bool = True) -> None:
        """Rows that were taken over count as prefilled: on Metal none that was decoded is."""
        written = max(self.written if self.tokens else 0, len(self.tokens) + len(tokens))
        self.become(self.tokens + tokens, self.decoded + [by_decode] * len(tokens), has_logits, written)

    def state(self) -> tuple[list[int], list[bool], bool, int]:
        return self.tokens, self.decoded, self.has_logits, self.written


class Walk:
    def __init__(self, path: Path, cold: Cold, seed: int) -> None:
        self.dice = random.Random(seed)
        self.rings = path.stem.startswith("muse-glimmer")
        self.cold = cold
        self.engine = _muser.Engine(
            str(path), device=DEVICE, slots=SLOTS, context=SCALE.context, kv_dtype=kv_of(path), threads=1, prefill_patience=16,
            memory_limit=None, prefix_cache_bytes=SCALE.cache, staging=True, **SCALE.engine,
        )  # fmt: skip
        self.slots = [Slot() for _ in range(SLOTS)]
        self.snapshots: dict[int, tuple[np.ndarray, tuple[list[int], list[bool], bool, int]]] = {}
        # A few long prompts that share beginnings, so that reuse, the store and eviction all happen.
        trunk = self.random_tokens(SCALE.context)
        self.stories = [trunk[:n] + self.random_tokens(SCALE.context - n) for n in SCALE.branches] + [trunk]
        self.seen: Counter[str] = Counter()
        self.done = 0

    def random_tokens(self, n: int) -> list[int]:
        return [self.dice.randrange(SCALE.tokens) for _ in range(n)]

    def step(self) -> None:
        i = self.dice.randrange(SLOTS)
        operation = self.dice.choice(OPERATIONS)
        if getattr(self, operation)(i, self.slots[i]) is not False:
            self.seen[operation] += 1
            self.done += 1
            self.check(i)

    def check(self, i: int) -> None:
        slot = self.slots[i]
        assert self.engine.tokens(i).tolist() == slot.tokens
        logits = self.engine.logits(i)
        assert (logits is not None) == slot.has_logits
        if logits is not None:
            assert logits.tobytes() == self.cold.logits(slot.tokens, slot.decoded), f"slot {i}, {len(slot.tokens)} tokens"
            self.seen["compared"] += 1
            self.seen["past a ring"] += slot.written > RING

    # Each: False where there is nothing to do.

    def prefill(self, i: int, slot: Slot) -> bool | None:
        story, length = self.dice.choice(self.stories), self.dice.choice(SCALE.lengths)
        tokens = story[len(slot.tokens) : len(slot.tokens) + length]
        if not tokens:
            return False
        n = self.engine.prefill(i, np.array(tokens, np.int32), PATIENCE, True)
        assert n < len(tokens) and (n == 0 or not slot.tokens)
        self.seen["reused"] += n
        slot.append(tokens, by_decode=False)
        return None

    def decode(self, i: int, slot: Slot) -> bool | None:
        token = self.dice.randrange(SCALE.tokens)
        if len(slot.tokens) == SCALE.context:
            with pytest.raises(ContextFullError):
                self.engine.decode(i, token, PATIENCE)
            self.seen["full"] += 1
            return False
        self.engine.decode(i, token, PATIENCE)
        slot.append([token], by_decode=True)
        return None

    def greedy(self, i: int, slot: Slot) -> bool | None:
        """A few tokens in one call. Where nobody wants their logits, the session may have none."""
        n, keeps_logits = self.dice.randint(1, 3), self.dice.random() < 0.3
        token, n = self.dice.randrange(SCALE.tokens), min(n, SCALE.context - len(slot.tokens))
        if n == 0:
            return False
        for chosen in self.engine.greedy(i, token, n, [], PATIENCE, keeps_logits):
            slot.append([token], by_decode=True)
            logits = np.frombuffer(self.cold.logits(slot.tokens, slot.decoded), np.float32)
            assert chosen == logits.argmax()
            token, n = chosen, n - 1
        assert n == 0
        slot.has_logits = keeps_logits or self.engine.logits(i) is not None
        self.seen["chosen without logits"] += not slot.has_logits
        return None

    def shift(self, i: int, slot: Slot) -> bool | None:
        """Leading tokens stay, and some of the newest."""
        keep = self.dice.randint(0, min(40, len(slot.tokens)))
        newest = slot.tokens[max(keep, len(slot.tokens) - self.dice.choice([1, 30, 130])) :]
        if not newest or keep + len(newest) == len(slot.tokens):
            return False
        tokens = slot.tokens[:keep] + newest
        self.engine.shift(i, np.array(tokens, np.int32), PATIENCE)
        slot.become(tokens, [False] * len(tokens), True, len(tokens))
        return None

    def cancel(self, i: int, slot: Slot) -> bool | None:
        """Before a prompt, or at some moment of it: what is in is its beginning."""
        tokens = self.random_tokens(min(SCALE.cancelled, SCALE.context - 1 - len(slot.tokens)))
        if not tokens:
            return False
        moment = threading.Timer(self.dice.choice([0, 0.001, 0.004]), self.engine.cancel, [i])
        moment.start()
        with suppress(CancelledError):
            self.engine.prefill(i, np.array(tokens, np.int32), PATIENCE, False)
        moment.join()
        with pytest.raises(CancelledError):
            self.engine.decode(i, 3, PATIENCE)
        self.engine.clear_cancel(i)
        after = self.engine.tokens(i).tolist()
        n = len(after) - len(slot.tokens)
        assert n >= 0 and after == (slot.tokens + tokens)[: len(after)]
        self.seen["cut short"] += n < len(tokens)
        if n:
            slot.append(tokens[:n], by_decode=False, has_logits=n == len(tokens))
        return None

    def rewind(self, i: int, slot: Slot) -> None:
        to = self.dice.randint(0, len(slot.tokens))
        if len(slot.tokens) > 40 and self.dice.random() < 0.5:
            to = len(slot.tokens) - self.dice.randint(0, 40)
        # A session that took rows over may have lost more than it wrote itself: only then a refusal may surprise.
        try:
            self.engine.rewind(i, to)
        except ParameterError as error:
            assert self.rings and 0 < to < len(slot.tokens), error
            self.seen["refused"] += 1
            return
        assert to == 0 or to == len(slot.tokens) or to >= slot.lowest(self.rings)
        if to < len(slot.tokens):
            slot.become(slot.tokens[:to], slot.decoded[:to], False, slot.written if to else 0)

    def fork(self, i: int, slot: Slot) -> bool | None:
        j = self.dice.randrange(SLOTS)
        if i == j:
            with pytest.raises(BusyError):
                self.engine.fork(i, j, PATIENCE)
            return False
        self.engine.fork(i, j, PATIENCE)
        self.slots[j].become(*slot.state())
        self.check(j)
        return None

    def save(self, i: int, slot: Slot) -> None:
        self.snapshots[i] = self.engine.snapshot(i), slot.state()

    def restore(self, i: int, slot: Slot) -> bool | None:
        saved = self.snapshots.get(self.dice.randrange(SLOTS))
        if saved is None:
            return False
        self.engine.restore(i, saved[0])
        slot.become(*saved[1])
        return None

    def release(self, i: int, slot: Slot) -> None:
        self.engine.reset(i)
        slot.become([], [], False, 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_walk(path: Path, cold: Cold, seed: int) -> None:
    walk = Walk(path, cold, seed)
    while walk.done < STEPS:
        walk.step()
    seen, stats = walk.seen, walk.engine.stats()
    seen["evicted"] = stats["prefix_cache_evicted"]
    print(f"{DEVICE}, {path.stem}, seed {seed}: {STEPS} operations, {dict(seen)}")
    assert min(seen[operation] for operation in set(OPERATIONS)) > STEPS // 200, seen
    assert seen["cut short"] > seen["cancel"] // 10
    assert seen["reused"] > 2 * STEPS // 5 and stats["reused_tokens"] == seen["reused"]
    assert seen["evicted"] > 0 and seen["past a ring"] > STEPS // 100
    assert stats["prefix_cache_bytes"] <= stats["prefix_cache_limit"] == SCALE.cache
