"""The jobs on muser: the native engine for raw speed, the public Model for what a user sees."""

from __future__ import annotations

import time

import numpy as np

import muser
from muser import _muser
from tests.engines import open_engine
from tests.perf.jobs import CONTEXT, SAMPLING, TEXT_PROMPT, Job, random_tokens


def versions() -> dict[str, str]:
    return {"muser": muser.__version__, "features": _muser.cpu_features().partition(": ")[2]}


class Side:
    def __init__(self, path: str, threads: int) -> None:
        self.path, self.threads = path, threads
        self.engine = open_engine(path, slots=4, context=CONTEXT, kv_dtype="f16", threads=threads)
        self.filled = -1  # tokens of random_tokens() that slot 0 holds
        self.model: muser.Model | None = None

    def to_depth(self, slot: int, depth: int) -> None:
        """The slot holds the first `depth` random tokens; going back to where it already was costs
        nothing."""
        if self.filled == depth and slot == 0 and depth:
            self.engine.rewind(0, depth)
            return
        self.engine.reset(slot)
        if depth:
            self.engine.prefill(slot, np.array(random_tokens(depth), np.int32), None)
        if slot == 0:
            self.filled = depth

    def run(self, job: Job) -> float:
        return {"decode": self.decode, "group": self.group, "prefill": self.prefill, "stream": self.stream, "sampled": self.stream}[
            job.kind
        ](job)

    def decode(self, job: Job) -> float:
        self.to_depth(0, job.depth)
        tokens = random_tokens(job.n, seed=1)
        start = time.perf_counter()
        for token in tokens:
            self.engine.decode(0, token, None)
        seconds = time.perf_counter() - start
        self.engine.leave_decode(0)
        return job.n / seconds

    def group(self, job: Job) -> float:
        for slot in range(job.width):
            self.to_depth(slot, job.depth)
        slots = list(range(job.width))
        tokens = random_tokens(job.n, seed=1)
        start = time.perf_counter()
        for token in tokens:
            self.engine.decode_group(slots, [token] * job.width, None)
        return job.width * job.n / (time.perf_counter() - start)

    def prefill(self, job: Job) -> float:
        self.engine.reset(0)
        self.filled = -1
        tokens = np.array(random_tokens(job.n), np.int32)
        start = time.perf_counter()
        self.engine.prefill(0, tokens, None)
        return job.n / (time.perf_counter() - start)

    def stream(self, job: Job) -> float:
        if self.model is None:
            self.model = muser.Model.load(
                self.path, slots=1, context=CONTEXT, threads=self.threads, prefix_cache_bytes=0
            )
        seen, first, last = 0, 0.0, 0.0
        options = SAMPLING if job.kind == "sampled" else {"temperature": 0.0}
        for chunk in self.model.stream(TEXT_PROMPT, max_tokens=job.n, ignore_eos=True, **options):
            last = time.perf_counter()
            if first:
                seen += len(chunk.tokens)
            else:
                first = last
        return seen / (last - first)


def first_token(path: str, threads: int, prompt: list[int]) -> object:
    """From the file to the choice of the first answer token. The caller times it."""
    model = muser.Model.load(path, slots=1, context=CONTEXT, threads=threads)
    with model.session() as session:
        session.prefill(prompt)
        session.logits.argmax()
    return model


def first_text(path: str, threads: int) -> object:
    """The same for a user who brings a text, and reads one: tokenizer included."""
    model = muser.Model.load(path, slots=1, context=CONTEXT, threads=threads)
    stream = model.stream(TEXT_PROMPT, max_tokens=1, temperature=0.0, ignore_eos=True)
    next(stream)
    return model, stream


def work(path: str, threads: int, job: Job) -> None:
    """What peak memory is taken over: one stream."""
    engine = open_engine(path, context=CONTEXT, kv_dtype="f16", threads=threads)
    engine.prefill(0, np.array(random_tokens(job.depth), np.int32), None)
    for token in random_tokens(job.n, seed=1):
        engine.decode(0, token, None)
