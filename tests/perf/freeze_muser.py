"""The freeze test through muser's public API: two threads, each in Model.stream."""

from __future__ import annotations

import threading
import time

import muser
from tests.perf.gaps import WARM_TOKENS, worst_gap
from tests.perf.jobs import Job, random_tokens
from tests.perf.muser_side import versions

__all__ = ["Side", "versions"]


class Side:
    def __init__(self, path: str, threads: int) -> None:
        self.model = muser.Model.load(path, slots=2, context=4096, threads=threads, prefix_cache_bytes=0)
        self.rounds = 0

    def run(self, job: Job) -> tuple[float, float]:
        """(worst gap of the stream, the newcomer's first token), in seconds."""
        arrivals: list[float] = []
        running, done = threading.Event(), threading.Event()

        def stream() -> None:
            start = random_tokens(8, seed=2)
            for _ in self.model.stream(start, max_tokens=2000, temperature=0.0, ignore_eos=True):
                arrivals.append(time.perf_counter())
                if len(arrivals) == WARM_TOKENS:
                    running.set()
                if done.is_set():
                    return

        thread = threading.Thread(target=stream)
        thread.start()
        running.wait()
        self.rounds += 1  # another prompt each time: no slot may know its beginning already
        prompt = random_tokens(job.n, seed=100 + self.rounds)
        start = time.perf_counter()
        next(iter(self.model.stream(prompt, max_tokens=1, temperature=0.0, ignore_eos=True)))
        first = time.perf_counter()
        done.set()
        thread.join()
        return worst_gap(arrivals, start, first), first - start
