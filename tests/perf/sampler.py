"""Microseconds a token of the sampler: python -m tests.perf.sampler

Processor time of this thread, not wall time, so that a busy machine disturbs it little. The aim is 150 us for
top_k 64 + top_p 0.95 + temperature 1 over 202,048 logits.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import muser

CHAINS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "no filter": {},
    "top_k 64, top_p 0.95": {"top_k": 64, "top_p": 0.95},
    "top_p 0.95": {"top_p": 0.95},
    "min_p 0.05": {"min_p": 0.05},
    "top_k 1000": {"top_k": 1000},
    "top_n_sigma 1": {"top_n_sigma": 1.0},
    "typical_p 0.9": {"typical_p": 0.9},
    "top_k 64, typical_p 0.9": {"top_k": 64, "typical_p": 0.9},
    "min_p 0.05, xtc": {"min_p": 0.05, "xtc_probability": 0.5},
    "dynatemp 0.5": {"dynatemp_range": 0.5},
    "mirostat 1": {"mirostat": 1},
    "mirostat 2": {"mirostat": 2},
    "min_p 0.05, adaptive-p": {"min_p": 0.05, "adaptive_target": 0.5},
    "adaptive-p": {"adaptive_target": 0.5},
    "penalties, top_k 64": {"repetition_penalty": 1.1, "top_k": 64},
    "dry, top_k 64": {"dry_multiplier": 0.8, "dry_sequence_breakers": (), "top_k": 64},
    "masked, top_k 64": {"top_k": 64},
}
HISTORY = 8192  # tokens that penalties (the last 64) and DRY (all) look back at


def rows(vocab: int) -> dict[str, np.ndarray]:
    """Logits as a trained model gives them (a few hundred tokens far above the rest), and a flat row."""
    rng = np.random.default_rng(0)
    flat = rng.standard_normal(vocab).astype(np.float32) * 2
    trained = flat.copy()
    trained[rng.integers(vocab, size=300)] += rng.exponential(5, size=300).astype(np.float32) + 4
    return {"trained": trained, "flat": flat}


def microseconds(
    sampler: muser.Sampler, row: np.ndarray, mask: np.ndarray | None, repeats: int = 15, calls: int = 20
) -> float:
    best = float("inf")
    for _ in range(repeats):
        started = time.thread_time()
        for _ in range(calls):
            sampler.sample(row, mask)
        best = min(best, (time.thread_time() - started) / calls)
    return best * 1e6


def main() -> None:
    rng = np.random.default_rng(1)
    for vocab in (49_152, 202_048, 262_144):
        history = rng.integers(vocab, size=HISTORY)
        masks = {"masked": rng.integers(2**32, size=(vocab + 31) // 32, dtype=np.uint32)}
        for kind, row in rows(vocab).items():
            for name, chain in CHAINS.items():
                sampler = muser.Sampler(seed=1, **chain)
                sampler.accept(history)
                mask = masks.get(name.split(",")[0])
                print(f"{vocab:>7} {kind:<8} {name:<24} {microseconds(sampler, row, mask):>7.0f} us")


if __name__ == "__main__":
    main()
