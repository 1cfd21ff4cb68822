"""Medians, ratios and floors as a Markdown table."""

from __future__ import annotations

from statistics import median

from tests.perf.compare import Figures
from tests.perf.jobs import Job
from tests.perf.probe import Floors

Results = list[tuple[Job, Figures]]


def with_range(figures: list[float]) -> str:
    return f"{median(figures):,.1f} ({min(figures):,.1f}–{max(figures):,.1f})"


def ratio(job: Job, figures: Figures) -> str:
    """muser over the other side where more is better, else muser's share of the other's; "–" when one is
    missing."""
    if len(figures) < 2:
        return "–"
    ours, other = median(figures["muser"]), median(next(f for side, f in figures.items() if side != "muser"))
    return f"{ours / other:.2f}×"


def floors_line(floors: Floors | None, weight_bytes: int) -> str:
    if floors is None:
        return "floors not measured: no C++ compiler"
    reads = f"streaming reads {floors.bytes_per_second / 1e9:.1f} GB/s over {weight_bytes / 1e6:.0f} MB"
    return f"{reads}, int8 peak {floors.macs_per_second / 1e9:.0f} GMAC/s"


def limit(job: Job, floors: Floors | None, weight_bytes: int, matrix_values: int) -> str:
    """The tokens/s that the machine allows: weights read once a pass, or one multiply-add a weight and
    token."""
    if floors is None or job.unit != "tokens/s":
        return "–"
    by_bytes = floors.bytes_per_second / weight_bytes
    by_macs = floors.macs_per_second / matrix_values if floors.macs_per_second else float("inf")
    if job.kind == "prefill":
        return f"{by_macs:,.0f} (arithmetic)"
    return f"{min(job.width * by_bytes, by_macs):,.0f} (reads)"


def markdown(results: Results, floors: Floors | None, weight_bytes: int, matrix_values: int) -> str:
    sides = list(results[0][1])
    rows = [["work", "unit", *sides, *(["ratio"] if len(sides) > 1 else []), "machine's limit"]]
    rows.append(["---"] * len(rows[0]))
    for job, figures in results:
        cells = [job.title, job.unit, *(with_range(figures[side]) for side in sides)]
        cells += [ratio(job, figures)] if len(sides) > 1 else []
        rows.append([*cells, limit(job, floors, weight_bytes, matrix_values)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
