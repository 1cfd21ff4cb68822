"""muser beside llama.cpp on one machine, in one run, on the same files.

    python -m tests.perf.cpu MODEL.gguf [MODEL.gguf ...] [--threads 2] [--repeats 7] [--json OUT.json]

Run it from the root of the project on a quiet machine. Without llama-cpp-python (or with --only muser) it
prints one column. Nothing here gates a build: see docs/performance.md for what the figures mean.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from tests.perf import probe, table, weights
from tests.perf.compare import Worker, alternate
from tests.perf.jobs import FRESH, WARM, Job


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def has_llama_cpp(python: str) -> bool:
    if python == sys.executable:
        return importlib.util.find_spec("llama_cpp") is not None
    return (
        subprocess.run([python, "-c", "import llama_cpp"], capture_output=True, check=False).returncode == 0
    )


def measure(path: Path, a: argparse.Namespace) -> dict:
    sides = {"muser": Worker("muser", str(path), a.threads)}
    if a.only != "muser" and has_llama_cpp(a.llama_python):
        sides["llama.cpp"] = Worker("llama", str(path), a.threads, a.llama_python)
    if a.only == "llama.cpp":
        del sides["muser"]
    size = weights.measure(path)
    results: table.Results = []
    with ExitStack() as stack:
        for worker in sides.values():
            stack.enter_context(worker)
        for job in (*WARM, *FRESH):
            if wanted(job, a.jobs):
                gauge = probe.Probe(a.threads, size.decode_bytes)
                figures = alternate(sides, job, a.repeats, is_fresh=job in FRESH, between=gauge.sample)
                results.append((job, figures, gauge.floors()))
                line = ", ".join(f"{side} {table.with_range(f)}" for side, f in figures.items())
                print(f"  {job.title}: {line}", file=sys.stderr, flush=True)
    versions = {side: worker.versions for side, worker in sides.items()}
    packages = [
        f"{k} {v}" for w in versions.values() for k, v in w.items() if k.startswith(("muser", "llama"))
    ]
    print(f"\n## {path.name}\n\n{cpu_name()}, {a.threads} threads; {', '.join(packages)}")
    print(
        f"medians (min–max) of {a.repeats} alternating runs; load average {os.getloadavg()[0]:.1f} at the end\n"
    )
    print(table.markdown(results, size))
    return {
        "file": path.name,
        "cpu": cpu_name(),
        "threads": a.threads,
        "versions": versions,
        "weights": asdict(size),
        "results": [
            {"job": asdict(job), "figures": figures, "floors": asdict(floors) if floors else None}
            for job, figures, floors in results
        ],
    }


def wanted(job: Job, kinds: list[str]) -> bool:
    return not kinds or job.kind in kinds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", choices=("muser", "llama.cpp"), default=None)
    parser.add_argument(
        "--jobs", nargs="*", default=[], help="kinds: decode group prefill stream load memory"
    )
    parser.add_argument(
        "--llama-python", default=sys.executable, help="interpreter that has llama-cpp-python"
    )
    parser.add_argument("--json", type=Path, help="where to keep every figure")
    a = parser.parse_args()
    records = [measure(path, a) for path in a.models]
    if a.json:
        a.json.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
