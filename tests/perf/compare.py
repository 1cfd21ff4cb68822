"""Runs jobs on several sides by turns and keeps every figure: what drifts with the machine's mood drifts
for all of them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from typing_extensions import Self

from tests.perf.jobs import KINDS, Job

Figures = dict[str, list[float]]  # side -> one figure a repeat
SETTLE = 0.5  # s before each run: threads of the side before spin on for up to 0.2 s (libomp's default)


class NotStartedError(RuntimeError):
    """A side cannot load the model. The reason is on stderr."""


@dataclass
class Worker:
    """A side's warm process (worker.py). `python` may be another interpreter than ours."""

    side: str
    module: str  # in tests.perf
    path: str
    threads: int
    python: str = sys.executable
    kinds: Collection[str] = KINDS  # of the jobs that it can do
    environment: Mapping[str, str] = field(default_factory=dict)  # besides ours
    versions: dict[str, str] = field(default_factory=dict)

    def command(self, *more: str) -> list[str]:
        return [self.python, "-m", "tests.perf.worker", self.module, self.path, str(self.threads), *more]

    def variant(self, name: str, environment: Mapping[str, str]) -> Self:
        return replace(self, side=f"{self.side} ({name})", environment=environment)

    @property
    def surroundings(self) -> dict[str, str]:
        """With compiled modules, as an installed package has them: a checkout gets them in the first, untimed round."""
        own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**own, **self.environment}

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self.command(), env=self.surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            self.versions = self.answer()
        except RuntimeError as e:
            raise NotStartedError(str(e)) from e
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)

    def answer(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the {self.side} worker ended with status {self.process.wait()}")
        return json.loads(line)

    def run(self, job: Job) -> Any:
        """What the side's run() returns: one figure, or of a freeze job two."""
        if job.is_fresh:
            return self.run_fresh(job)
        assert self.process.stdin
        self.process.stdin.write(json.dumps(asdict(job)) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def run_fresh(self, job: Job) -> Any:
        if job.is_start:  # finds the memory that a start of the same side has just left (docs/performance.md)
            self.run_once(job)
        return self.run_once(job)

    def run_once(self, job: Job) -> Any:
        done = subprocess.run(
            self.command("--fresh"),
            env=self.surroundings,
            input=json.dumps(asdict(job)) + "\n",
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)


def has_package(python: str, package: str) -> bool:
    if python == sys.executable:
        return importlib.util.find_spec(package) is not None
    done = subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False)
    return done.returncode == 0


def alternate(
    workers: Mapping[str, Worker],
    jobs: Sequence[Job],
    repeats: int,
    between: Callable[[], None],
    settle: float = SETTLE,
) -> list[Figures]:
    """One untimed round to warm up, then `repeats` rounds; every other round goes through jobs and sides
    backwards. `between` is called after each job of a round (it samples what the machine can do at that
    time). Returns one Figures a job."""
    figures: list[Figures] = [{side: [] for side in workers} for _ in jobs]
    for repeat in range(-1, repeats):
        way = 1 if repeat % 2 else -1
        for job, of_job in list(zip(jobs, figures, strict=True))[::way]:
            for side, worker in list(workers.items())[::way]:
                time.sleep(settle)
                figure = worker.run(job)
                if repeat >= 0:
                    of_job[side].append(float(figure))
            if repeat >= 0:
                between()
    return figures
