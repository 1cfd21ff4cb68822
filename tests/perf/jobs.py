"""What is measured, as data: one job a line of the table. Both sides run the same jobs on the same random
tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CONTEXT = 2560  # rows a sequence: depth 2048 + 128 tokens, and room
FIRST_PROMPT = 8  # tokens of the prompt whose first answer token ends "load to first token"


@dataclass(frozen=True)
class Job:
    kind: str  # decode, group, prefill, stream: in a warm worker; load, memory: each in a fresh process
    n: int = 0  # tokens a sequence
    depth: int = 0  # tokens in the context before the clock starts
    width: int = 1  # sequences side by side
    unit: str = "tokens/s"

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
            case "load":
                return "load to first token"
        return "peak resident memory"


WARM = (
    Job("decode", n=128),
    Job("decode", n=128, depth=2048),
    *(Job("group", n=64, depth=32, width=w) for w in (1, 2, 3, 4)),
    Job("prefill", n=512),
    Job("stream", n=128),
)
FRESH = (Job("load", unit="ms"), Job("memory", n=128, depth=512, unit="MiB"))


def random_tokens(n: int, seed: int = 0) -> list[int]:
    """Ids that are ordinary text pieces in every vocabulary this is used with."""
    return np.random.default_rng(seed).integers(300, 4000, n).tolist()
