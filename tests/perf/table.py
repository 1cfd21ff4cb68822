"""Medians, ratios and floors as a Markdown table."""

from __future__ import annotations

from statistics import median

from tests.perf.compare import Figures
from tests.perf.jobs import Job
from tests.perf.probe import Floors
from tests.perf.weights import Weights

Results = list[tuple[Job, Figures, Floors | None]]


def with_range(figures: list[float]) -> str:
    return f"{median(figures):,.1f} ({min(figures):,.1f}–{max(figures):,.1f})"


def ratio(job: Job, figures: Figures) -> str:
    """muser over the other side where more is better, else muser's share of the other's; "–" when one is
    missing."""
    if len(figures) < 2:
        return "–"
    ours, other = median(figures["muser"]), median(next(f for side, f in figures.items() if side != "muser"))
    return f"{ours / other:.2f}×"


def limit(job: Job, floors: Floors | None, size: Weights) -> float | None:
    """Tokens/s that the machine allowed while the job ran: weights read once a pass, and a multiply-add a
    weight and token; the lower of the two."""
    if floors is None or job.unit != "tokens/s":
        return None
    prefill = job.kind == "prefill"
    rows = job.n if prefill else job.width
    values = size.body_values + size.head_values / (job.n if prefill else 1)
    by_bytes = rows * floors.bytes_per_second / size.decode_bytes
    return min(by_bytes, floors.macs_per_second / values) if floors.macs_per_second else by_bytes


def share(figures: list[float], most: float | None) -> list[str]:
    """The limit and how much of it was reached. Above 100 % the floor was mismeasured: distrust the row."""
    return ["–", "–"] if most is None else [f"{most:,.0f}", f"{median(figures) / most:.0%}"]


def markdown(results: Results, size: Weights) -> str:
    sides = list(results[0][1])
    several = len(sides) > 1
    rows = [
        [
            "work",
            "unit",
            *sides,
            *(["ratio"] if several else []),
            "machine's limit",
            f"{sides[0]}'s share of it",
        ]
    ]
    rows.append(["---"] * len(rows[0]))
    for job, figures, floors in results:
        cells = [job.title, job.unit, *(with_range(figures[side]) for side in sides)]
        cells += [ratio(job, figures)] if several else []
        rows.append([*cells, *share(figures[sides[0]], limit(job, floors, size))])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
