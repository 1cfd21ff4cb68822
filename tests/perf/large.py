"""A model that does not fit into a cache, beside what the machine's memory and arithmetic allow.

    python -m tests.perf.large MODEL.gguf [--threads 2] [--repeats 7] [--tokens 8] [--json OUT.json]

Packed decode of widths 1 to 4 and a prefill of 128 tokens, taking turns; after each run the machine's streaming
bandwidth, over a set far larger than any cache, and its int8 peak are measured with the same threads.
tools/shape_model.py writes such models. docs/performance.md, "Large models", says what the figures mean.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from tests.perf import table, weights
from tests.perf.cpu import cpu_name
from tests.perf.jobs import Job
from tests.perf.muser_side import Side, versions
from tests.perf.probe import Floors, Probe
from tests.perf.worker import PEAK_UNIT

STREAMED = 2 << 30  # bytes of the bandwidth probe; the largest last-level caches have half a GiB
PROMPT = 128


@dataclass
class Row:
    """One job's runs. Each has its own floors, measured right after it: what memory gives here changes from
    second to second."""

    job: Job
    figures: list[float] = field(default_factory=list)  # tokens/s
    floors: list[Floors] = field(default_factory=list)

    def floor(self) -> Floors:
        return Floors(
            median(f.bytes_per_second for f in self.floors), median(f.macs_per_second for f in self.floors)
        )

    def bytes_per_second(self, rate: float, size: weights.Weights) -> float:
        """Of weights. A pass holds every row of the job, and reads each weight once."""
        return rate / (self.job.n if self.job.kind == "prefill" else self.job.width) * size.decode_bytes

    def macs_per_second(self, rate: float, size: weights.Weights) -> float:
        prefill = self.job.kind == "prefill"
        return rate * (size.prefill_values(self.job.n) if prefill else size.body_values + size.head_values)

    def shares(self, size: weights.Weights) -> tuple[float, float]:
        """Of streaming bandwidth and of int8 peak: each run beside its own floors."""
        runs = list(zip(self.figures, self.floors))
        return (
            median(self.bytes_per_second(rate, size) / floor.bytes_per_second for rate, floor in runs),
            median(self.macs_per_second(rate, size) / floor.macs_per_second for rate, floor in runs),
        )


def jobs(tokens: int) -> list[Job]:
    return [*(Job("group", n=tokens, width=width) for width in (1, 2, 3, 4)), Job("prefill", n=PROMPT)]


def measure(side: Side, gauge: Probe, work: list[Job], repeats: int) -> list[Row]:
    """One untimed round, then `repeats` rounds, every other one backwards."""
    rows = [Row(job) for job in work]
    for repeat in range(-1, repeats):
        for row in rows if repeat % 2 else reversed(rows):
            figure = side.run(row.job)
            gauge.sample()
            if repeat >= 0:
                row.figures.append(figure)
                row.floors.append(Floors(gauge.reads[-1], gauge.macs[-1]))
    return rows


def markdown(rows: list[Row], size: weights.Weights) -> str:
    lines = [["work", "tokens/s", "machine's limit", "weights read, GB/s", "share of streaming",
              "GMAC/s", "share of int8 peak"]]  # fmt: skip
    for row in rows:
        rate, (of_bytes, of_macs) = median(row.figures), row.shares(size)
        lines.append([
            row.job.title, table.with_range(row.figures), f"{table.limit(row.job, row.floor(), size):,.1f}",
            f"{row.bytes_per_second(rate, size) / 1e9:.1f}", f"{of_bytes:.0%}",
            f"{row.macs_per_second(rate, size) / 1e9:,.0f}", f"{of_macs:.0%}",
        ])  # fmt: skip
    return table.markdown(lines)


def spread(values: Iterable[float]) -> str:
    values = list(values)
    return f"{median(values) / 1e9:.1f} ({min(values) / 1e9:.1f}–{max(values) / 1e9:.1f})"


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_UNIT


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=8, help="a sequence of a decode run")
    parser.add_argument(
        "--streamed-mib", type=int, default=STREAMED >> 20, help="what the bandwidth probe reads"
    )
    parser.add_argument("--json", type=Path, help="where to keep every figure")
    a = parser.parse_args()

    size = weights.measure(a.model)
    started = time.perf_counter()
    side = Side(str(a.model), a.threads)
    loaded, peak = time.perf_counter() - started, peak_bytes()
    gauge = Probe(a.threads, a.streamed_mib << 20)
    if not gauge.library:
        sys.exit("large: the limits need a C++ compiler (c++, or what CXX names)")
    rows = measure(side, gauge, jobs(a.tokens), a.repeats)
    floors = [f for row in rows for f in row.floors]

    print(
        f"## {a.model.name}\n\n{cpu_name()}, {a.threads} threads; muser {versions()['muser']} ({versions()['features']})"
    )
    print(
        f"{size.decode_bytes / 1e9:.2f} GB of weights read a pass; loaded in {loaded:.1f} s, then {peak / 2**30:.2f} GiB "
        f"resident at most; load average {os.getloadavg()[0]:.1f} at the end"
    )
    print(
        f"streaming reads of {a.streamed_mib} MiB {spread(f.bytes_per_second for f in floors)} GB/s; "
        f"int8 {spread(f.macs_per_second for f in floors)} GMAC/s; "
        f"medians (min–max) of {a.repeats} alternating runs\n"
    )
    print(markdown(rows, size))
    if a.json:
        record = {
            "file": a.model.name,
            "cpu": cpu_name(),
            "threads": a.threads,
            "weights": asdict(size),
            "rows": [asdict(r) for r in rows],
        }
        a.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
