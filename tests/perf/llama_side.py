"""The jobs on llama.cpp: its C API for raw speed (as llama-bench and llama-batched-bench use it),
llama_cpp.Llama for what a Python user sees."""

from __future__ import annotations

import time

import llama_cpp

from tests.perf.jobs import CONTEXT, SAMPLING, TEXT_PROMPT, Job, random_tokens
from tools.llama_cpp_engine import LlamaCpp
from tools.llama_cpp_engine import versions as llama_versions


def versions() -> dict[str, str]:
    """The features that its build uses, by name."""
    said = llama_versions()
    on = [
        feature.split(" = ")[0]
        for feature in said["features"].removeprefix("CPU : ").split(" | ")
        if feature.endswith(" = 1")
    ]
    return {"llama-cpp-python": said["llama_cpp_python"], "features": " ".join(on)}


class Side:
    """llama.cpp chooses whether to use flash attention, except deep in a context: there it chooses what is half
    as fast on some CPUs."""

    def __init__(self, path: str, threads: int) -> None:
        self.path, self.threads = path, threads
        self.engine = LlamaCpp(path, threads=threads, context=CONTEXT)
        self.deep: LlamaCpp | None = None
        self.depth = 0  # tokens of random_tokens() that `deep` holds
        self.packed: dict[int, LlamaCpp] = {}  # by width: a context is made for a number of sequences
        self.model: llama_cpp.Llama | None = None

    def fill(self, engine: LlamaCpp, sequence: int, depth: int) -> None:
        engine.run([(sequence, token, p) for p, token in enumerate(random_tokens(depth))])

    def at_depth(self, depth: int) -> LlamaCpp:
        if not depth:
            self.engine.clear()
            return self.engine
        if self.deep is None:
            self.deep = LlamaCpp(self.path, threads=self.threads, context=CONTEXT, flash_attention=False)
        if self.depth == depth:
            self.deep.forget_from(0, depth)
        else:
            self.deep.clear()
            self.fill(self.deep, 0, depth)
            self.depth = depth
        return self.deep

    def run(self, job: Job) -> float:
        return {"decode": self.decode, "group": self.group, "prefill": self.prefill, "stream": self.stream, "sampled": self.stream}[
            job.kind
        ](job)

    def decode(self, job: Job) -> float:
        engine = self.at_depth(job.depth)
        tokens = random_tokens(job.n, seed=1)
        start = time.perf_counter()
        for step, token in enumerate(tokens):
            engine.run([(0, token, job.depth + step)])
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
        self.engine.prepare([(0, token, p) for p, token in enumerate(random_tokens(job.n))])
        start = time.perf_counter()
        self.engine.decode()
        return job.n / (time.perf_counter() - start)

    def stream(self, job: Job) -> float:
        """Without a logit bias against the end token (it would cost Python time), so the prompt must
        be one that the model goes on with. Tokens are counted by what was evaluated: the last chunk is
        empty."""
        if self.model is None:
            self.model = python_api(self.path, self.threads)
        first, begun = 0.0, 0
        options = SAMPLING if job.kind == "sampled" else {"temperature": 0.0}
        for _ in self.model(TEXT_PROMPT, max_tokens=job.n, stream=True, **options):
            last = time.perf_counter()
            if not first:
                first, begun = last, self.model.n_tokens
        seen = self.model.n_tokens - begun
        if seen < job.n // 2:
            raise RuntimeError(f"llama.cpp ended the stream after {seen} tokens")
        return seen / (last - first)


def python_api(path: str, threads: int) -> llama_cpp.Llama:
    """As a user opens it, with the one setting that makes it faster here."""
    return llama_cpp.Llama(
        path, n_ctx=CONTEXT, n_threads=threads, n_threads_batch=threads, flash_attn=True, verbose=False
    )


def first_token(path: str, threads: int, prompt: list[int]) -> object:
    model = python_api(path, threads)
    answer = model.generate(prompt, temp=0.0)
    next(answer)
    return model, answer


def first_text(path: str, threads: int) -> object:
    model = python_api(path, threads)
    stream = iter(model(TEXT_PROMPT, max_tokens=1, temperature=0.0, stream=True))
    next(stream)
    return model, stream


def work(path: str, threads: int, job: Job) -> None:
    engine = LlamaCpp(path, threads=threads, context=CONTEXT)
    engine.run([(0, token, p) for p, token in enumerate(random_tokens(job.depth))])
    for step, token in enumerate(random_tokens(job.n, seed=1)):
        engine.run([(0, token, job.depth + step)])
