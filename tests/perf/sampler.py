"""Microseconds a token of the sampler: python -m tests.perf.sampler

Processor time of this thread, not wall time, so that a busy machine disturbs it little. The aim is 150 us for
top_k 64 + top_p 0.95 + temperature 1 over 202,048 logits.
"""

from __future__ import annotations

import time

import numpy as np

import muser

CHAINS: dict[str, dict[str, float]] = {
    "greedy": {"temperature": 0},
    "no filter": {},
    "top_k 64, top_p 0.95": {"top_k": 64, "top_p": 0.95},
    "top_p 0.95": {"top_p": 0.95},
    "min_p 0.05": {"min_p": 0.05},
    "top_k 1000": {"top_k": 1000},
}


def rows(vocab: int) -> dict[str, np.ndarray]:
    """Logits as a trained model gives them (a few hundred tokens far above the rest), and a flat row."""
    rng = np.random.default_rng(0)
    flat = rng.standard_normal(vocab).astype(np.float32) * 2
    trained = flat.copy()
    trained[rng.integers(vocab, size=300)] += rng.exponential(5, size=300).astype(np.float32) + 4
    return {"trained": trained, "flat": flat}


def microseconds(sampler: muser.Sampler, row: np.ndarray, repeats: int = 15, calls: int = 20) -> float:
    best = float("inf")
    for _ in range(repeats):
        started = time.thread_time()
        for _ in range(calls):
            sampler.sample(row)
        best = min(best, (time.thread_time() - started) / calls)
    return best * 1e6


def main() -> None:
    for vocab in (49_152, 202_048, 262_144):
        for kind, row in rows(vocab).items():
            for name, chain in CHAINS.items():
                sampler = muser.Sampler(seed=1, **chain)  # type: ignore[arg-type]
                print(f"{vocab:>7} {kind:<8} {name:<22} {microseconds(sampler, row):>7.0f} us")


if __name__ == "__main__":
    main()
