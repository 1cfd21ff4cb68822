"""The jobs on llama.cpp: its C API for raw speed (as llama-bench and llama-batched-bench use it),
llama_cpp.Llama for what a Python user sees."""

from __future__ import annotations

import time

import llama_cpp

from tests.perf.jobs import CONTEXT, FIRST_PROMPT, Job, random_tokens
from tools.llama_cpp_engine import LlamaCpp
from tools.llama_cpp_engine import versions as llama_versions

name = "llama.cpp"


def versions() -> dict[str, str]:
    return llama_versions()


class Side:
    def __init__(self, path: str, threads: int) -> None:
        self.path, self.threads = path, threads
        self.engine = LlamaCpp(path, threads=threads, context=CONTEXT, sequences=1)
        self.packed: dict[int, LlamaCpp] = {}  # by width: a context is made for a number of sequences
        self.filled = -1
        self.model: llama_cpp.Llama | None = None

    def fill(self, engine: LlamaCpp, sequence: int, depth: int) -> None:
        engine.run([(sequence, token, p) for p, token in enumerate(random_tokens(depth))])

    def to_depth(self, depth: int) -> None:
        if self.filled == depth and depth:
            self.engine.forget_from(0, depth)
            return
        self.engine.clear()
        if depth:
            self.fill(self.engine, 0, depth)
        self.filled = depth

    def run(self, job: Job) -> float:
        return {"decode": self.decode, "group": self.group, "prefill": self.prefill, "stream": self.stream}[
            job.kind
        ](job)

    def decode(self, job: Job) -> float:
        self.to_depth(job.depth)
        tokens = random_tokens(job.n, seed=1)
        start = time.perf_counter()
        for step, token in enumerate(tokens):
            self.engine.run([(0, token, job.depth + step)])
        return job.n / (time.perf_counter() - start)

    def group(self, job: Job) -> float:
        if job.width not in self.packed:
            self.packed[job.width] = LlamaCpp(
                self.path, threads=self.threads, context=256, sequences=job.width
            )
        engine = self.packed[job.width]
        engine.clear()
        for sequence in range(job.width):
            self.fill(engine, sequence, job.depth)
        tokens = random_tokens(job.n, seed=1)
        start = time.perf_counter()
        for step, token in enumerate(tokens):
            engine.run([(sequence, token, job.depth + step) for sequence in range(job.width)])
        return job.width * job.n / (time.perf_counter() - start)

    def prefill(self, job: Job) -> float:
        self.engine.clear()
        self.filled = -1
        self.engine.prepare([(0, token, p) for p, token in enumerate(random_tokens(job.n))])
        start = time.perf_counter()
        self.engine.decode()
        return job.n / (time.perf_counter() - start)

    def stream(self, job: Job) -> float:
        if self.model is None:
            self.model = llama_cpp.Llama(
                self.path, n_ctx=CONTEXT, n_threads=self.threads, n_threads_batch=self.threads, verbose=False
            )
        eos = self.model.token_eos()
        seen, first, last = 0, 0.0, 0.0
        for _ in self.model(
            "Once upon a time", max_tokens=job.n, temperature=0.0, stream=True, logit_bias={eos: -1e9}
        ):
            last = time.perf_counter()
            if first:
                seen += 1
            else:
                first = last
        return seen / (last - first)


def first_token(path: str, threads: int) -> None:
    model = llama_cpp.Llama(path, n_ctx=CONTEXT, n_threads=threads, n_threads_batch=threads, verbose=False)
    model.eval(random_tokens(FIRST_PROMPT))
    model.scores[FIRST_PROMPT - 1].argmax()


def work(path: str, threads: int, job: Job) -> None:
    engine = LlamaCpp(path, threads=threads, context=CONTEXT)
    engine.run([(0, token, p) for p, token in enumerate(random_tokens(job.depth))])
    for step, token in enumerate(random_tokens(job.n, seed=1)):
        engine.run([(0, token, job.depth + step)])
