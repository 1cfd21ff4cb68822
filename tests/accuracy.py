"""The measures that the accuracy gates speak of, in one place: tests, recorders and docs/accuracy.md mean
the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def relative_rms(actual: np.ndarray, expected: np.ndarray) -> float:
    """Root mean square of the error over that of the expected values, all elements together."""
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    return float(np.sqrt(np.square(a - e).sum() / np.square(e).sum()))


def pooled(errors: Sequence[float]) -> float:
    """Relative RMS error of several sequences together (their logits have about the same size)."""
    return float(np.sqrt(np.square(errors).mean()))


def log_likelihoods(logits: np.ndarray, tokens: Sequence[int]) -> np.ndarray:
    """Natural log of the probability that row i of logits [T, vocab] gives to tokens[i]; float64 [T]."""
    rows = logits.astype(np.float64)
    top = rows.max(axis=1, keepdims=True)
    log_total = np.log(np.exp(rows - top).sum(axis=1)) + top[:, 0]
    return rows[np.arange(len(tokens)), tokens] - log_total
