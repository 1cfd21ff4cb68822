"""muser beside llama.cpp and openvino-genai on one machine, in one run, on the same files.

    python -m tests.perf.cpu MODEL.gguf [MODEL.gguf ...] [--threads 2] [--repeats 7] [--json OUT.json]

Run it from the root of the project on a quiet machine. A peer that is not installed, or cannot load a model,
is left out. Nothing here gates a build: see docs/performance.md for what the figures mean.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tests.perf import freeze, probe, sides, table, weights
from tests.perf.compare import NotStartedError, Worker, alternate
from tests.perf.jobs import KINDS, REQUANTIZED, Job, sets_of
from tests.perf.names import ITSELF, name_of
from tests.perf.record import Record, Result, write
from tests.perf.report import report
from tests.perf.requantize import to_q4_0


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def start(stack: ExitStack, candidates: Sequence[Worker]) -> dict[str, Worker]:
    """The sides that could load the model, warm until the stack unwinds."""
    started = {}
    for worker in candidates:
        try:
            started[worker.side] = stack.enter_context(worker)
        except NotStartedError as e:
            if worker.side == ITSELF:
                raise
            say(f"{worker.side} is left out: {e}")
    return started


def say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


def run_set(
    jobs: Sequence[Job], workers: dict[str, Worker], threads: int, repeats: int, size: weights.Weights
) -> list[Result]:
    able = {side: w for side, w in workers.items() if jobs[0].kind in w.kinds}
    gauge = probe.Probe(threads, size.decode_bytes)
    figures = alternate(able, jobs, repeats, gauge.sample)
    for job, found in zip(jobs, figures, strict=True):
        say(f"{job.title}: " + ", ".join(f"{side} {table.with_range(f)}" for side, f in found.items()))
    return [Result(job, found, gauge.floors()) for job, found in zip(jobs, figures, strict=True)]


def measure(path: Path, kinds: Collection[str], a: argparse.Namespace) -> Record:
    size = weights.measure(path)
    record = Record(path.name, weights.name(path), cpu_name(), a.threads, a.repeats, size)
    candidates = sides.candidates(path, a)
    if sets := sets_of(kinds):
        with ExitStack() as stack:
            workers = start(stack, candidates)
            record.versions = {side: worker.versions for side, worker in workers.items()}
            for jobs in sets:
                record.results += run_set(jobs, workers, a.threads, a.repeats, size)
                record.load.append(os.getloadavg()[0])
    if freeze.KIND in kinds:
        with ExitStack() as stack:
            workers = start(stack, [replace(w, module=freeze.MODULES[name_of(w.side)]) for w in candidates])
            record.versions |= {side: worker.versions for side, worker in workers.items()}
            record.freezes = freeze.measure(workers, a.repeats)
            record.load.append(os.getloadavg()[0])
    return record


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    every = (*KINDS, freeze.KIND)
    parser.add_argument("--jobs", nargs="*", choices=every, default=every, help="all unless some are named")
    parser.add_argument(
        "--q4-0", type=Path, metavar="FOLDER", help="requantize every model into it, and measure that too"
    )
    parser.add_argument("--json", type=Path, help="where to keep every figure")
    sides.add_arguments(parser)
    a = parser.parse_args()
    runs = [(path, a.jobs) for path in a.models]
    if a.q4_0:
        kinds = [kind for kind in a.jobs if kind in REQUANTIZED]
        runs += [(to_q4_0(path, a.q4_0, a.llama_python), kinds) for path in a.models]
    records = []
    for path, kinds in runs:
        records.append(measure(path, kinds, a))
        if a.json:  # after each model: a run of an hour may end early
            write(a.json, records)
    report(records)


if __name__ == "__main__":
    main()
