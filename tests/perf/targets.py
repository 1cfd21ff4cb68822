"""What this project wants to reach on the CPU, as ratios of muser's figure to another side's: data, and the
mark that the tables print. Nothing here gates a build.

A target holds for one model and one quantization; a file is known by its own metadata.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.perf.jobs import Job
from tests.perf.names import LLAMA, OPENVINO, name_of

SMOLLM2, GEMMA3 = "smollm2", "gemma-3"  # general.basename
Q4_0, Q4_1, Q4_K_M = "Q4_0", "Q4_1", "Q4_K_M"
FILE_TYPES = {2: Q4_0, 3: Q4_1, 15: Q4_K_M}  # general.file_type


@dataclass(frozen=True)
class Target:
    bound: float
    at_least: bool = True

    def mark(self, value: float) -> str:
        """Such as "≥ 2.5 ✓"."""
        holds = value >= self.bound if self.at_least else value <= self.bound
        return f"{'≥' if self.at_least else '≤'} {self.bound:g} {'✓' if holds else '✗'}"


HALF, SAME = Target(0.5, at_least=False), Target(1.0, at_least=False)

# Row of the table -> target. Of decode the depth, of packed decode the width, matters too.
Row = tuple[str, int]
Targets = dict[Row, Target]


def row(job: Job) -> Row:
    return job.kind, {"decode": job.depth, "group": job.width}.get(job.kind, 0)


def _ratios(shallow: float, deep: float, packed: float, prefill: float) -> Targets:
    return {
        ("decode", 0): Target(shallow),
        ("decode", 2048): Target(deep),
        ("group", 2): Target(packed),
        ("group", 4): Target(packed),
        ("prefill", 0): Target(prefill),
        ("stream", 0): Target(3),
        ("load", 0): HALF,
        ("load-text", 0): HALF,
        ("memory", 0): SAME,
    }


_Q4_0: Targets = {("decode", 0): Target(2), ("group", 4): Target(2.2), ("prefill", 0): Target(2.5)}

# (basename, file type, other side) -> targets
RATIOS: dict[tuple[str, str, str], Targets] = {
    (SMOLLM2, Q4_1, LLAMA): _ratios(shallow=2.5, deep=3, packed=3, prefill=5.5),
    (GEMMA3, Q4_K_M, LLAMA): _ratios(shallow=1.8, deep=1.8, packed=2.2, prefill=3),
    (SMOLLM2, Q4_0, LLAMA): _Q4_0,
    (GEMMA3, Q4_0, LLAMA): _Q4_0,
    (SMOLLM2, Q4_1, OPENVINO): {
        ("decode", 0): Target(2.5),
        ("group", 4): Target(1.5),
        ("prefill", 0): Target(1.2),
    },
}
WIDTH_4_OVER_1 = Target(2.5)  # muser's aggregate over its own
WORST_GAP = Target(60, at_least=False)  # ms, of a stream while another caller's long prompt is processed
NEWCOMER = Target(1200, at_least=False)  # ms, to that caller's first token


def target(model: tuple[str, str], other: str, job: Job) -> Target | None:
    """Every build and setting of another side is held to the same target."""
    return RATIOS.get((*model, name_of(other)), {}).get(row(job))
