"""What is measured, as data: one job a line of the table. All sides run the same jobs on the same random
tokens."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

CONTEXT = 2560  # rows a sequence: depth 2048 + 128 tokens, and room
FIRST_PROMPT = 8  # tokens of the prompt whose first answer token ends "load to first token"
TEXT_PROMPT = "Once upon a time, there was a king"  # the same as text; streaming starts with it, too
SAMPLING = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "seed": 1}  # llama-cpp-python's own


@dataclass(frozen=True)
class Job:
    kind: str
    n: int = 0  # tokens a sequence
    depth: int = 0  # tokens in the context before the clock starts
    width: int = 1  # sequences side by side
    step: int = 0  # freeze: tokens of the prompt that a pass may take
    unit: str = "tokens/s"

    @property
    def is_start(self) -> bool:
        return self.kind in ("load", "load-text")

    @property
    def is_fresh(self) -> bool:
        """In a process of its own each time, instead of a warm worker."""
        return self.is_start or self.kind == "memory"

    @property
    def title(self) -> str:
        match self.kind:
            case "decode":
                return f"decode {self.n} at depth {self.depth}"
            case "group":
                return f"packed decode, width {self.width} ({self.depth} + {self.n})"
            case "prefill":
                return f"prefill {self.n}"
            case "stream":
                return f"Python API, streaming {self.n}"
            case "sampled":
                return "the same, sampled"
            case "load":
                return "load to first token, from token ids"
            case "load-text":
                return "load to first token, from text"
        return "peak resident memory"


# Jobs of one set take turns within a repeat, because their figures are also compared with each other.
SETS: tuple[tuple[Job, ...], ...] = (
    (Job("decode", n=128),),
    (Job("decode", n=128, depth=2048),),
    tuple(Job("group", n=64, depth=32, width=w) for w in (1, 2, 3, 4)),
    (Job("prefill", n=512),),
    (Job("stream", n=128), Job("sampled", n=128)),
    (Job("load", unit="ms"),),
    (Job("load-text", unit="ms"),),
    (Job("memory", n=128, depth=512, unit="MiB"),),
)
KINDS = tuple(dict.fromkeys(job.kind for jobs in SETS for job in jobs))
REQUANTIZED = ("decode", "group", "prefill")  # what is measured again on the Q4_0 file


def sets_of(kinds: Collection[str]) -> list[tuple[Job, ...]]:
    return [jobs for jobs in SETS if jobs[0].kind in kinds]


def random_tokens(n: int, seed: int = 0) -> list[int]:
    """Ids that are ordinary text pieces in every vocabulary this is used with."""
    return np.random.default_rng(seed).integers(300, 4000, n).tolist()
