"""Medians, ratios, targets and floors as Markdown tables: one table for muser beside each other side."""

from __future__ import annotations

from statistics import median

from tests.perf import targets
from tests.perf.jobs import KINDS, Job
from tests.perf.probe import Floors
from tests.perf.record import Record, Result
from tests.perf.weights import Weights


def with_range(figures: list[float], digits: int = 1) -> str:
    middle, low, high = (f"{f(figures):,.{digits}f}" for f in (median, min, max))
    return f"{middle} ({low}–{high})"


def markdown(rows: list[list[str]]) -> str:
    """The first row holds the titles."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def limit(job: Job, floors: Floors | None, size: Weights) -> float | None:
    """Tokens/s that the machine allowed while the job ran: weights read once a pass, and a multiply-add a
    weight and token; the lower of the two. None where no such number bounds it."""
    if floors is None or job.unit != "tokens/s":
        return None
    if job.kind == "stream":  # greedy: how many of the weights must be read depends on the text
        return None
    prefill = job.kind == "prefill"
    rows = job.n if prefill else job.width
    values = size.prefill_values(job.n) if prefill else size.body_values + size.head_values
    by_bytes = rows * floors.bytes_per_second / size.decode_bytes
    return min(by_bytes, floors.macs_per_second / values) if floors.macs_per_second else by_bytes


def share(figures: list[float], most: float | None) -> list[str]:
    """The limit and how much of it was reached. Above 100 % the floor was mismeasured: distrust the row."""
    return ["–", "–"] if most is None else [f"{most:,.0f}", f"{median(figures) / most:.0%}"]


def compared(ours: list[float], other: list[float], target: targets.Target | None) -> list[str]:
    """muser's median over the other's, and whether that is what we want to reach."""
    ratio = median(ours) / median(other)
    return [f"{ratio:.2f}×", target.mark(ratio) if target else "–"]


def gains(results: list[Result], side: str) -> list[float]:
    """What packing four rows pays on one side: width 4 over width 1 of the same repeat."""
    of_width = {r.job.width: r.figures.get(side, []) for r in results if r.job.kind == "group"}
    return [four / one for one, four in zip(of_width.get(1, []), of_width.get(4, []), strict=False)]


def beside(record: Record, ours: str, other: str | None, *, with_limits: bool) -> str:
    """The table of `ours`, with one other side's figures or none."""
    results = sorted(record.results, key=lambda r: KINDS.index(r.job.kind))
    if other:
        results = [r for r in results if other in r.figures]
    sides = [ours, *([other] if other else [])]
    rows = [["work", "unit", *sides, *(["ratio", "reach"] if other else [])]]
    rows[0] += ["machine's limit", f"{ours}'s share of it"] if with_limits else []
    for r in results:
        cells = [r.job.title, r.job.unit, *(with_range(r.figures[side]) for side in sides)]
        if other:
            target = targets.target(record.model, other, r.job)
            cells += compared(r.figures[ours], r.figures[other], target)
        if with_limits:
            cells += share(r.figures[ours], limit(r.job, r.floors, record.weights))
        rows.append(cells)
        if (r.job.kind, r.job.width) == ("group", 4) and (found := gains(results, ours)):
            cells = ["width 4 over own width 1", "×", *(with_range(gains(results, s), 2) for s in sides)]
            cells += ["–", targets.WIDTH_4_OVER_1.mark(median(found))] if other else []
            rows.append(cells + ["–"] * (len(rows[0]) - len(cells)))
    return markdown(rows)


def speeds(record: Record) -> list[str]:
    """One table for each side but the first, or one of the first alone."""
    sides = list(dict.fromkeys(side for r in record.results for side in r.figures))
    if not sides:
        return []
    ours, others = sides[0], sides[1:] or [None]
    return [beside(record, ours, other, with_limits=other is others[0]) for other in others]


def at_once(record: Record) -> str:
    """One table with all sides: muser's medians; the others' medians, muser's ratio to them and the target."""
    results = sorted(record.results, key=lambda r: KINDS.index(r.job.kind))
    ours, *others = dict.fromkeys(side for r in results for side in r.figures)
    rows = [["work", "unit", ours, "of the limit", *others]]
    for r in results:
        mine = r.figures[ours]
        cells = [r.job.title, r.job.unit, with_range(mine), share(mine, limit(r.job, r.floors, record.weights))[1]]
        for other in others:
            theirs = r.figures.get(other)
            cells.append(_beside_ours(mine, theirs, targets.target(record.model, other, r.job)) if theirs else "–")
        rows.append(cells)
    if found := gains(results, ours):
        reach = targets.WIDTH_4_OVER_1.mark(median(found))
        theirs = [f"{median(gain):.2f}" if (gain := gains(results, other)) else "–" for other in others]
        rows.append(["width 4 over own width 1", "×", f"{with_range(found, 2)}, {reach}", "–", *theirs])
    return markdown(rows)


def _beside_ours(ours: list[float], theirs: list[float], target: targets.Target | None) -> str:
    cells = [f"{median(theirs):,.1f}", *compared(ours, theirs, target)]
    return ", ".join(cell for cell in cells if cell != "–")
