"""The tiny model of the package through the whole engine: rows that must not depend on their company, and logits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from muser import _muser
from muser.selftest.blocks import Floats
from muser.selftest.machine import relative_rms

TINY = Path(_muser.__file__).parent / "data" / "muse-tiny-Q4_K_M.gguf"
TIMEOUT = 600.0
# float32 activations beside the CPU device's eight bits; measured on the simulator: 1.5e-2
LIMIT = 5e-2


def tokens(n: int, vocab: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, vocab, n).astype(np.int32)


def open_engine(device: str, slots: int, context: int) -> _muser.Engine:
    return _muser.Engine(str(TINY), device=device, slots=slots, context=context, kv_dtype="f16", threads=None,
                         prefill_patience=16, memory_limit=None)  # fmt: skip


def logits(engine: _muser.Engine, slot: int) -> Floats:
    row = engine.logits(slot)
    assert isinstance(row, np.ndarray)
    return row.copy()


def group_rows(engine: _muser.Engine, prompts: list[np.ndarray], slots: list[int], steps: int) -> list[list[bytes]]:
    """For each slot its logits after each of ``steps`` decode groups of these slots."""
    for slot in slots:
        engine.reset(slot)
        engine.prefill(slot, prompts[slot], TIMEOUT)
    rows: list[list[bytes]] = [[] for _ in slots]
    for step in range(steps):
        engine.decode_group(slots, [int(prompts[slot][step]) for slot in slots], TIMEOUT)
        for i, slot in enumerate(slots):
            rows[i].append(logits(engine, slot).tobytes())
    return rows


def exactness(device: str, quick: bool) -> Iterator[tuple[str, bool]]:
    """(promise, whether it held)."""
    engine = open_engine(device, 4, 128 if quick else 1024)
    prompts = [tokens(n, engine.vocab, n) for n in ((5, 9, 3, 12) if quick else (5, 90, 33, 200))]
    steps = 2 if quick else 8
    alone = [group_rows(engine, prompts, [slot], steps)[0] for slot in range(4)]
    for group in ([[0, 1, 2, 3]] if quick else [[0, 1], [1, 2, 3], [0, 1, 2, 3], [3, 0]]):
        same = all(rows == alone[slot] for slot, rows in zip(group, group_rows(engine, prompts, group, steps), strict=True))
        yield f"a group of {len(group)}: every row as alone, bit for bit", same
    whole, results = tokens(40 if quick else 700, engine.vocab, 9), set()
    for chunk in (len(whole), *((16,) if quick else (512, 64, 37))):
        engine.reset(0)
        for start in range(0, len(whole), chunk):
            engine.prefill(0, whole[start : start + chunk], TIMEOUT)
        results.add(logits(engine, 0).tobytes())
    yield "a prompt in chunks of any size: the same bits", len(results) == 1
    engine.close()


def rows(device: str, quick: bool) -> Floats:
    """Logits [n, vocab] after a prompt and after each token that is decoded."""
    engine = open_engine(device, 1, 128)
    ids = tokens(28 if quick else 84, engine.vocab, 4)
    engine.prefill(0, ids[:20], TIMEOUT)
    got = [logits(engine, 0)]
    for token in ids[20:]:
        engine.decode(0, int(token), TIMEOUT)
        got.append(logits(engine, 0))
    engine.close()
    return np.stack(got)


def compared(got: Floats, expected: Floats) -> tuple[float, int, int]:
    """Relative RMS, rows whose largest logit is the same one, rows."""
    return relative_rms(got, expected), int((got.argmax(1) == expected.argmax(1)).sum()), len(got)
