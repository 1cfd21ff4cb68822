"""Runs jobs on several sides by turns and keeps every figure: what drifts with the machine's mood drifts
for both."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field

from typing_extensions import Self

from tests.perf.jobs import Job

Figures = dict[str, list[float]]  # side -> one figure a repeat


@dataclass
class Worker:
    """A side's warm process (worker.py). `python` may be another interpreter than ours."""

    side: str
    path: str
    threads: int
    python: str = sys.executable
    versions: dict[str, str] = field(default_factory=dict)

    def command(self, *more: str) -> list[str]:
        return [self.python, "-m", "tests.perf.worker", self.side, self.path, str(self.threads), *more]

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.versions = json.loads(self.answer())
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)

    def answer(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the {self.side} worker ended with status {self.process.wait()}")
        return line

    def run(self, job: Job) -> float:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(asdict(job)) + "\n")
        self.process.stdin.flush()
        return float(json.loads(self.answer()))

    def run_fresh(self, job: Job) -> float:
        done = subprocess.run(
            self.command("--fresh"),
            input=json.dumps(asdict(job)) + "\n",
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return float(json.loads(done.stdout))


def alternate(
    workers: Mapping[str, Worker], job: Job, repeats: int, *, is_fresh: bool, between: Callable[[], None]
) -> Figures:
    """One untimed round to warm up, then `repeats` rounds; every other round goes through the sides
    backwards. `between` is called in each round (it samples what the machine can do at that time)."""
    figures: Figures = {side: [] for side in workers}
    for repeat in range(-1, repeats):
        order: Iterable[str] = workers if repeat % 2 else reversed(list(workers))
        for side in order:
            figure = (workers[side].run_fresh if is_fresh else workers[side].run)(job)
            if repeat >= 0:
                figures[side].append(figure)
        if repeat >= 0:
            between()
    return figures
