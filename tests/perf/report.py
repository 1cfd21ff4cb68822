"""Prints the tables of records that tests.perf.cpu has written with --json.

    python -m tests.perf.report [--short] FIGURES.json [FIGURES.json ...]

Several files may hold parts of one table (other --jobs, other models).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from tests.perf import table
from tests.perf.freeze_table import freezes
from tests.perf.record import Record, read

LEGEND = (
    "ratio: muser's median over the other's. reach: what it should be, and whether it is. "
    "docs/performance.md says what the rows mean."
)


def heading(record: Record) -> str:
    machine = f"{record.cpu}, {record.threads} threads"
    how = f"medians (min–max) of {record.repeats} alternating runs"
    load = f"load average {min(record.load):.1f}–{max(record.load):.1f}"
    lines = [f"## {record.file}", "", f"{machine}; {how}; {load}", ""]
    for side, said in record.versions.items():
        lines.append(f"* {side}: " + "; ".join(f"{what} {which}" for what, which in said.items()))
    return "\n".join(lines)


def report(records: Iterable[Record], *, short: bool = False) -> None:
    """short: all sides in one table, as ratios."""
    for record in records:
        print("\n" + heading(record))
        for speeds in [table.at_once(record)] if short and record.results else table.speeds(record):
            print("\n" + speeds)
        if record.freezes:
            print(f"\nA stream runs; another caller submits {record.freezes[0].prompt} tokens:\n")
            print(freezes(record))
    print("\n" + LEGEND)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figures", type=Path, nargs="+")
    parser.add_argument("--short", action="store_true", help="all sides in one table, as ratios")
    arguments = parser.parse_args()
    report(read(arguments.figures), short=arguments.short)


if __name__ == "__main__":
    main()
