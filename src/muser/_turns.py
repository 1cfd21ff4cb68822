"""Long work in Python that takes turns with the other threads of the process."""

from __future__ import annotations

import time
from collections.abc import Iterator

_PAUSE = 1e-6  # seconds: shorter than any sleep is, and enough for a thread that waits to wake up with the interpreter lock


def in_turns(count: int, at_once: int) -> Iterator[range]:
    """``range(count)`` in parts. Who takes the next one lets another thread run first, which the interpreter by itself would
    not before 5 ms: too late for an event loop."""
    for start in range(0, count, at_once):
        if start:
            time.sleep(_PAUSE)
        yield range(start, min(start + at_once, count))
