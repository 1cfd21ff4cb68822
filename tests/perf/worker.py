"""One side in a process of its own, so that thread pools, memory and crashes of one do not touch the other.

python -m tests.perf.worker SIDE MODEL THREADS           # answers jobs, a JSON line each, until stdin ends
python -m tests.perf.worker SIDE MODEL THREADS --fresh   # answers one job of a fresh process and ends
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time

from tests.perf.jobs import Job

PEAK_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in one ru_maxrss


def fresh(side, path: str, threads: int, job: Job) -> float:
    if job.kind == "load":
        start = time.perf_counter()
        side.first_token(path, threads)
        return (time.perf_counter() - start) * 1e3
    side.work(path, threads, job)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_UNIT / 2**20


def main() -> None:
    side_name, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    side = importlib.import_module(f"tests.perf.{side_name}_side")
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
