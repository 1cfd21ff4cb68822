"""The constraint on a generation, if there is one: consumes what was sampled, and has the next mask ready when the device
has the next logits.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from .constraint import Constraint, Mask

if TYPE_CHECKING:
    from .._native import NativeEngine
    from ..sampler import Sampler


class Guide:
    """``constraint`` may be set and taken away between two tokens: it concerns those that are sampled from then on, and
    knows no others. ``ends``: the tokens that end the generation."""

    def __init__(self, sampler: Sampler, ends: AbstractSet[int], constraint: Constraint | None = None) -> None:
        self.constraint = constraint
        self._sampler = sampler
        self._ends = ends
        self._used: list[Constraint] = []
        self._sampled_under: Constraint | None = None  # for the last token

    def begin(self) -> None:
        """Before the prefill: on the first mask."""
        if self.constraint is not None:
            self.constraint.begin()

    @property
    def is_sampled(self) -> bool:
        """Whether the last token was sampled under the constraint, which has not consumed it yet."""
        return self._sampled_under is self.constraint

    def sampled(self) -> None:
        """It was, before the generation was saved."""
        self._sampled_under = self.constraint

    def sample(self, engine: NativeEngine, slot: int) -> int | None:
        """None: the text is complete, nothing can follow, and there is no end token that could say so."""
        constraint = self._sampled_under = self.constraint
        if constraint is None:
            return self._sampler._sample_slot(engine, slot)
        mask = self._mask(constraint)
        return None if mask is None else self._sampler._sample_slot(engine, slot, mask)

    def step(self, engine: NativeEngine, slot: int, token: int) -> int | None:
        """Decodes ``token``, which :meth:`sample` gave, and samples the next one."""
        constraint = self.constraint
        if constraint is None:
            self._sampled_under = None
            return self._sampler._step_slot(engine, slot, token)
        if constraint is self._sampled_under:
            constraint.consume(token)
        if constraint.begin():
            self._sampled_under = constraint
            mask = self._mask(constraint)
            return None if mask is None else self._sampler._step_slot(engine, slot, token, mask)
        engine.decode(slot, token, None)
        return self.sample(engine, slot)

    def _mask(self, constraint: Constraint) -> Mask | None:
        """None: there is nothing to sample."""
        if constraint not in self._used:
            self._used.append(constraint)
        mask = constraint.mask()
        if constraint.only_ends:
            self._sampler._native.suppress([])  # min_tokens yields
            if not mask.any():
                return None
        return mask

    @property
    def masks(self) -> int:
        return sum(constraint.masks for constraint in self._used)

    @property
    def mask_seconds(self) -> float:
        return sum(constraint.mask_seconds for constraint in self._used)

    @property
    def wait_seconds(self) -> float:
        return sum(constraint.wait_seconds for constraint in self._used)
