"""The freeze test on llama.cpp, in one loop around llama_decode. As llama-server fills a batch, the stream's
row goes first and tokens of the prompt fill the rest, up to `step` tokens a batch; without its sockets,
JSON and detokenizing, so no slower than the server with `-b step`. With the settings that are fastest here:
one KV buffer for both, and for small batches no flash attention."""

from __future__ import annotations

import time

from tests.perf.gaps import WARM_TOKENS, worst_gap
from tests.perf.jobs import Job, random_tokens
from tests.perf.llama_side import versions
from tools.llama_cpp_engine import LlamaCpp

__all__ = ["Side", "versions"]
CONTEXT = 4096
STREAM, NEWCOMER = 0, 1  # sequences
SMALL = 256  # rows of a batch from which on flash attention pays


class Side:
    def __init__(self, path: str, threads: int) -> None:
        self.path, self.threads = path, threads
        self.engines: dict[bool, LlamaCpp] = {}  # by whether batches are small
        self.engine(256)

    def engine(self, step: int) -> LlamaCpp:
        small = step < SMALL
        if small not in self.engines:
            self.engines[small] = LlamaCpp(
                self.path,
                threads=self.threads,
                context=CONTEXT,
                sequences=2,
                flash_attention=False if small else None,
                unified=True,
            )
        return self.engines[small]

    def run(self, job: Job) -> tuple[float, float]:
        engine, arrivals = self.engine(job.step), []
        engine.clear()
        beginning = random_tokens(8, seed=2)
        engine.run([(STREAM, token, p) for p, token in enumerate(beginning)])
        token, position = int(engine.logits().argmax()), len(beginning)
        while len(arrivals) < WARM_TOKENS:
            engine.run([(STREAM, token, position)])
            token, position = int(engine.logits(0).argmax()), position + 1
            arrivals.append(time.perf_counter())
        prompt, taken = random_tokens(job.n, seed=3), 0
        start = time.perf_counter()
        while taken < len(prompt):
            part = prompt[taken : taken + job.step - 1]
            rows = [(NEWCOMER, t, taken + i) for i, t in enumerate(part)]
            engine.run([(STREAM, token, position), *rows])
            token, position, taken = int(engine.logits(0).argmax()), position + 1, taken + len(part)
            arrivals.append(time.perf_counter())
        engine.logits(len(part)).argmax()
        first = time.perf_counter()
        return worst_gap(arrivals, start, first), first - start
