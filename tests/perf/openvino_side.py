"""The jobs on openvino-genai: requests are fed to its pipeline, then its steps are timed."""

from __future__ import annotations

import time

from tests.perf.jobs import Job, random_tokens
from tests.perf.openvino_requests import Requests, arrived, versions

__all__ = ["Side", "versions"]
STEP = 512  # tokens a pass, so that a prompt of 512 is one pass as on the other sides


class Side:
    def __init__(self, path: str, threads: int) -> None:
        self.requests = Requests(path, threads, STEP)

    def run(self, job: Job) -> float:
        if job.kind == "prefill":
            return self.prefill(job)
        return self.decode(job)

    def prefill(self, job: Job) -> float:
        start = time.perf_counter()
        _handle = self.requests.add(random_tokens(job.n), answer=1)
        self.requests.run_all()
        return job.n / (time.perf_counter() - start)

    def decode(self, job: Job) -> float:
        """Also packed decode, which is the same with more requests. The first answer tokens come with the
        prompts and are not timed; a prompt has one token at least."""
        prompt = random_tokens(max(1, job.depth))
        handles = [self.requests.add(prompt, answer=job.n + 1) for _ in range(job.width)]
        waiting = set(range(job.width))
        while waiting:
            self.requests.pipeline.step()
            waiting -= {i for i in waiting if arrived(handles[i])}
        start = time.perf_counter()
        self.requests.run_all()
        return job.width * job.n / (time.perf_counter() - start)
