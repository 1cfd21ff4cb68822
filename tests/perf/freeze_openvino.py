"""The freeze test on openvino-genai's continuous batching: two requests in one pipeline that takes at most
`step` tokens a pass, so that the prompt is cut and the stream goes on between its parts."""

from __future__ import annotations

import time

from tests.perf.gaps import WARM_TOKENS, worst_gap
from tests.perf.jobs import Job, random_tokens
from tests.perf.openvino_requests import Requests, arrived, versions

__all__ = ["Side", "versions"]


class Side:
    def __init__(self, path: str, threads: int) -> None:
        self.path, self.threads = path, threads
        self.by_step: dict[int, Requests] = {}  # a pipeline is made for a number of tokens a pass
        self.pipeline(256)  # shows at once whether the model can be loaded

    def pipeline(self, step: int) -> Requests:
        if step not in self.by_step:
            self.by_step[step] = Requests(self.path, self.threads, step)
        return self.by_step[step]

    def run(self, job: Job) -> tuple[float, float]:
        requests = self.pipeline(job.step)
        arrivals: list[float] = []
        stream = requests.add(random_tokens(8, seed=2), answer=1000)

        def step() -> None:
            requests.pipeline.step()
            if arrived(stream):
                arrivals.append(time.perf_counter())

        while len(arrivals) < WARM_TOKENS:
            step()
        start = time.perf_counter()
        newcomer = requests.add(random_tokens(job.n, seed=3), answer=1)
        while not arrived(newcomer):
            step()
        first = time.perf_counter()
        stream.cancel()
        requests.run_all()
        return worst_gap(arrivals, start, first), first - start
