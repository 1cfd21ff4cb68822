"""How fast the products are: GB/s of weights at one to four rows, GFLOP/s of a prompt's rows."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from muser.selftest.blocks import TYPES
from muser.selftest.machine import Machine

TYPES_TIMED = ("F16", "Q8_0", "Q4_0", "Q4_K", "Q5_K", "Q6_K")
PROMPT = 512


class Bench:
    """Square matrices of one type, more of them than caches hold."""

    def __init__(self, device: str, type_name: str, side: int, total: int) -> None:
        layout = TYPES[type_name]
        self.bytes = side * side // layout.values * layout.size
        self.side, self.count = side, max(2, total // self.bytes)
        self.machine = Machine(device)
        ops = self.machine.ops
        self.table = self.machine.matrix("F32", 8, side, "table")
        self.norm = self.machine.vector(side, "norm")
        one = self.machine.matrix(type_name, side, side, type_name)
        self.weights = [one] + [self.machine.matrix(type_name, side, side, type_name) for _ in range(self.count - 1)]
        ops.set_workspace(PROMPT, 1, 1, {"residual": side, "normed": side, "branch": side})

    def seconds(self, rows: int, decode: bool, rounds: int, repeats: int) -> float:
        """Of one product: a pass with all of them less a pass with none."""

        def once(n: int) -> float:
            ops = self.machine.ops
            ops.begin([], [i % 8 for i in range(rows)], [0] * rows, decode)
            ops.embed(self.table)
            ops.norm(self.norm, 1e-5)
            for i in range(n):
                ops.matmul("normed", [(self.weights[i % self.count], -1, "branch")])
            return ops.commit()

        n = self.count * rounds
        once(n)
        return max(median(once(n) for _ in range(repeats)) - median(once(0) for _ in range(repeats)), 1e-9) / n


def table(device: str, quick: bool) -> Iterator[tuple[str, list[float], float]]:
    """(type, GB/s at 1, 2, 3, 4 rows, GFLOP/s of a prompt)."""
    side, total = (256, 0) if quick else (4096, 1 << 28)
    for name in ("Q4_K",) if quick else TYPES_TIMED:
        bench = Bench(device, name, side, total)
        repeats = 1 if quick else 5
        bandwidth = [bench.bytes / bench.seconds(n, True, 1, repeats) / 1e9 for n in (1, 2, 3, 4)]
        rows = 8 if quick else PROMPT
        flops = 2.0 * side * side * rows / bench.seconds(rows, False, 1, 1 if quick else 3) / 1e9
        yield name, bandwidth, flops
