"""Sampling outside the generation loop, for callers who drive a Session themselves."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from muser import _muser
from muser.params import SamplingOverrides, SamplingParams, merged


class Sampler:
    """Turns logits into tokens by the rules of :class:`SamplingParams`; owns one random stream.

    For one sequence and one thread at a time. ``max_tokens``, ``stop_token_ids`` and ``ignore_eos`` are not its
    business. Same parameters, same seed and same logits: same tokens.
    """

    def __init__(self, params: SamplingParams | None = None, **overrides: Unpack[SamplingOverrides]) -> None:
        self.params = merged(params, overrides)
        self.seed: int = effective_seed(self.params)
        self._native = _muser.Sampler(
            temperature=self.params.temperature,
            top_k=self.params.top_k,
            top_p=self.params.top_p,
            min_p=self.params.min_p,
            seed=self.seed,
        )

    def sample(self, logits: NDArray[np.float32]) -> int:
        """The next token for float32 logits ``[vocab]``.

        Raises ParameterError("logits") for a NaN (its ``.index`` says where) and for a row without a token,
        that is empty or all -inf; the random stream has not moved then. +inf is certain.
        """
        return self._native.sample(np.ascontiguousarray(logits, dtype=np.float32))


def effective_seed(params: SamplingParams) -> int:
    """The given seed, or 64 bits from the operating system."""
    return int.from_bytes(os.urandom(8), "little") if params.seed is None else params.seed
