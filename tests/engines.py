"""Short names for driving the native engine in tests: explicit slots, no tokenizer, no pool."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from muser import _muser

DATA = Path(__file__).parent / "data"
PATIENCE = 600.0  # seconds, of a call that should end: longer is a hang
DEVICE = os.environ.get("MUSER_TEST_DEVICE", "cpu")  # "metal" in tests/test_metal_device.py
SHIPPED = Path(_muser.__file__).parent / "data" / "muse-tiny-Q4_K_M.gguf"


def open_engine(
    path: str | Path,
    *,
    device: str = DEVICE,
    slots: int = 1,
    context: int | None = None,
    kv_dtype: str = "f32",
    threads: int | None = 1,
    prefill_patience: int | None = 16,
    memory_limit: int | None = None,
    pass_limit: float | None = None,
    longest_prefill: float | None = 0.0,
    pause_after: float | None = None,
) -> _muser.Engine:
    """``longest_prefill`` 0: chunks as long as the device can take, however slow it is. None: what it asks for."""
    return _muser.Engine(
        str(path),
        device=device,
        slots=slots,
        context=context,
        kv_dtype=kv_dtype,
        threads=threads,
        prefill_patience=prefill_patience,
        memory_limit=memory_limit,
        pass_limit=pass_limit,
        longest_prefill=longest_prefill,
        pause_after=pause_after,
    )


def prefill(
    engine: _muser.Engine, tokens: Sequence[int], *, slot: int = 0, chunk: int | None = None
) -> np.ndarray:
    """Appends tokens, `chunk` of them a call (all at once if None), and returns the last row's logits."""
    ids = np.asarray(tokens, dtype=np.int32)
    for start in range(0, len(ids), chunk or len(ids)):
        engine.prefill(slot, ids[start : start + (chunk or len(ids))], timeout=PATIENCE)
    return engine.logits(slot)


def decode(engine: _muser.Engine, token: int, *, slot: int = 0) -> np.ndarray:
    engine.decode(slot, int(token), timeout=PATIENCE)
    return engine.logits(slot)


def stepwise(engine: _muser.Engine, tokens: Sequence[int], *, slot: int = 0) -> np.ndarray:
    """float32 [T, vocab]: the first token is prefilled, each other one decoded."""
    rows = [prefill(engine, tokens[:1], slot=slot)]
    rows += [decode(engine, token, slot=slot) for token in tokens[1:]]
    return np.stack(rows)


def greedy(engine: _muser.Engine, prompt: Sequence[int], n: int, stop: Sequence[int] = ()) -> list[int]:
    """At most n first-maximum tokens; a stop token is kept and ends it."""
    logits = prefill(engine, prompt)
    out: list[int] = []
    while len(out) < n:
        out.append(int(logits.argmax()))
        if out[-1] in stop or len(out) == n:
            break
        logits = decode(engine, out[-1])
    return out
