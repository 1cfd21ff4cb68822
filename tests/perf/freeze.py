"""What a newcomer's long prompt does to a running stream, through the public API.

    python -m tests.perf.freeze MODEL.gguf [--prompt 1500] [--threads 2] [--repeats 7]

One thread streams; once it runs, another one submits the prompt. Reported: the worst gap between two tokens
of the stream while the prompt was being processed, and the newcomer's time to its first token.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import threading
import time
from pathlib import Path

import muser
from tests.perf.jobs import random_tokens

WARM_TOKENS = 32  # of the stream before the newcomer arrives


def one_round(model: muser.Model, prompt: list[int]) -> tuple[float, float]:
    """(worst gap of the stream, the newcomer's first token), in seconds."""
    arrivals: list[float] = []
    running, done = threading.Event(), threading.Event()

    def stream() -> None:
        for _ in model.stream(random_tokens(8, seed=2), max_tokens=1000, temperature=0.0, ignore_eos=True):
            arrivals.append(time.perf_counter())
            if len(arrivals) == WARM_TOKENS:
                running.set()
            if done.is_set():
                return

    thread = threading.Thread(target=stream)
    thread.start()
    running.wait()
    start = time.perf_counter()
    next(iter(model.stream(prompt, max_tokens=1, temperature=0.0, ignore_eos=True)))
    first = time.perf_counter()
    done.set()
    thread.join()
    inside = [t for t in arrivals if t <= first]
    last_before = max((t for t in inside if t <= start), default=start)
    marks = [last_before, *(t for t in inside if t > start), first]
    return max(b - a for a, b in itertools.pairwise(marks)), first - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--prompt", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    a = parser.parse_args()
    with muser.Model.load(a.model, slots=2, context=4096, threads=a.threads) as model:
        rounds = [one_round(model, random_tokens(a.prompt, seed=i)) for i in range(a.repeats)]
    for title, figures in zip(
        ("worst gap of the stream", "newcomer's first token"), zip(*rounds, strict=True), strict=True
    ):
        print(f"{title}: {statistics.median(figures):.3f} s ({min(figures):.3f}–{max(figures):.3f})")


if __name__ == "__main__":
    main()
