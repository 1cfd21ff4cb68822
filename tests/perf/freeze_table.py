"""The freeze test as a Markdown table."""

from __future__ import annotations

from statistics import median

from tests.perf import targets
from tests.perf.names import ITSELF
from tests.perf.record import Freeze, Record
from tests.perf.table import markdown, with_range


def is_ahead(ours: Freeze, other: Freeze) -> bool:
    """On both at once: a side that shortens one by lengthening the other is not ahead."""
    return median(ours.gaps) < median(other.gaps) and median(ours.firsts) < median(other.firsts)


def freezes(record: Record) -> str:
    ours = next((f for f in record.freezes if f.side == ITSELF), None)
    rows = [["side", "prompt tokens a pass", "worst gap, ms", "newcomer's first token, ms", "muser"]]
    for f in record.freezes:
        verdict = "–"
        if f is ours and record.model[0] == targets.SMOLLM2:
            gap = targets.WORST_GAP.mark(1e3 * median(f.gaps))
            first = targets.NEWCOMER.mark(1e3 * median(f.firsts))
            verdict = f"gap {gap}, first token {first}"
        elif ours and f is not ours:
            verdict = "ahead on both ✓" if is_ahead(ours, f) else "not ahead on both ✗"
        cells = (with_range([1e3 * s for s in seconds], 0) for seconds in (f.gaps, f.firsts))
        rows.append([f.side, str(f.step or "its own rule"), *cells, verdict])
    return markdown(rows)
