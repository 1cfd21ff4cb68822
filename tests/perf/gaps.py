"""What the freeze test measures, the same for every side (freeze_*.py)."""

from __future__ import annotations

import itertools

WARM_TOKENS = 32  # of the stream before the newcomer arrives


def worst_gap(arrivals: list[float], start: float, first: float) -> float:
    """Seconds between neighbours among the stream's tokens from the last one before `start`, when the prompt
    came, to `first`, when it was answered; what is still open then counts too."""
    before = max((t for t in arrivals if t <= start), default=start)
    marks = [before, *(t for t in arrivals if start < t <= first), first]
    return max(b - a for a, b in itertools.pairwise(marks))
