"""One side in a process of its own, so that thread pools, memory and crashes of one do not touch the other.

python -m tests.perf.worker MODULE MODEL THREADS           # answers jobs, a JSON line each, until stdin ends
python -m tests.perf.worker MODULE MODEL THREADS --fresh   # answers one job of a fresh process and ends

MODULE is one of tests/perf, such as muser_side: Side(path, threads).run(job), versions(), and for fresh jobs
first_token(), first_text() and work(). The former two return what must not be freed while the clock runs.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from pathlib import Path

from tests.perf.jobs import FIRST_PROMPT, Job, random_tokens

PEAK_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in one ru_maxrss


def peak_bytes() -> int:
    """Of this program. Linux hands ru_maxrss down from the parent through fork and exec; VmHWM it does not."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_UNIT


def fresh(side, path: str, threads: int, job: Job) -> float:
    """Milliseconds, or of "memory" MiB."""
    if job.kind == "memory":
        side.work(path, threads, job)
        return peak_bytes() / 2**20
    prompt = random_tokens(FIRST_PROMPT)
    start = time.perf_counter()
    kept = side.first_token(path, threads, prompt) if job.kind == "load" else side.first_text(path, threads)
    seconds = time.perf_counter() - start
    del kept
    return seconds * 1e3


def main() -> None:
    module, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    side = importlib.import_module(f"tests.perf.{module}")
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever a library prints must not break the protocol
    if "--fresh" in sys.argv:
        answers.write(json.dumps(fresh(side, path, threads, Job(**json.loads(sys.stdin.readline())))))
        return
    warm = side.Side(path, threads)
    answers.write(json.dumps(side.versions()) + "\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(warm.run(Job(**json.loads(line)))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
