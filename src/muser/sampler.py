"""Sampling outside the generation loop, for callers who drive a Session themselves."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from muser import _checks as checks
from muser import _muser
from muser.params import SamplingOverrides, SamplingParams, merged


class Sampler:
    """Turns logits into tokens by the rules of :class:`SamplingParams`; owns one random stream.

    For one sequence and one thread at a time. Where a generation stops and what it reports
    (from ``max_tokens`` on) is not its business. Same parameters, same seed and same logits: same tokens. ``params`` is the SamplingParams in use,
    ``seed`` the effective seed: the given one, or the one that was drawn.
    """

    def __init__(self, params: SamplingParams | None = None, **overrides: Unpack[SamplingOverrides]) -> None:
        self.params: SamplingParams = merged(params, overrides)
        """The parameters as they were given, defaults filled in."""

        self.seed: int = effective_seed(self.params)
        """The effective seed: the given one, or the one that was drawn."""

        self._native = _muser.Sampler(
            temperature=self.params.temperature,
            top_k=self.params.top_k,
            top_p=self.params.top_p,
            min_p=self.params.min_p,
            seed=self.seed,
        )

    def sample(self, logits: NDArray[np.float32]) -> int:
        """The next token for float32 logits ``[vocab]``.

        Other real numbers are converted. Raises ParameterError("logits") for a NaN or a number beyond float32
        (its ``.index`` says where), for a row without a token, that is empty or all -inf, and for what is no 1-D
        array of real numbers, masked arrays included; the random stream has not moved then. +inf is certain.
        """
        return self._native.sample(checks.logits_array(logits))

    def __repr__(self) -> str:
        p = self.params
        return (
            f"<muser.Sampler temperature={p.temperature:g} top_k={p.top_k} top_p={p.top_p:g} min_p={p.min_p:g} "
            f"seed={self.seed}>"
        )


def effective_seed(params: SamplingParams) -> int:
    """The given seed, or 64 bits from the operating system."""
    return int.from_bytes(os.urandom(8), "little") if params.seed is None else params.seed
