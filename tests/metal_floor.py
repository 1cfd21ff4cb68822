"""What a decode pass of Muse Glimmer 30B must read at the least, and what that allows at Apple's memory bandwidths.

    PYTHONPATH=tests python -m metal_floor      # the table of docs/metal.md
"""

from __future__ import annotations

from metal_shape import MUSE_30B, VOCAB, quant_of
from quant_blocks import block_size
from toy import matrices, vectors

BANDWIDTHS = (273e9, 546e9, 800e9)  # bytes/s: Apple's figures for M4 Pro, M4 Max, M2 Ultra
DEPTHS = (0, 2048, 32768)
KV_ROW_BYTES = 2 * 2 * 128 * 2  # keys and values, 2 heads of 128, float16


def weight_bytes() -> int:
    """Every matrix but the embedding, of which one row is read, and every vector: once a pass, whatever its width."""
    total = sum(4 * size for _, size, _, _ in vectors(MUSE_30B))
    for name, (rows, columns), _ in matrices(MUSE_30B, VOCAB):
        if name != "token_embd.weight":
            values, size = block_size(quant_of(name))
            total += rows * columns // values * size
    return total


def kv_bytes(depth: int) -> int:
    """Of one row at this position: full layers read all rows before it, sliding ones their window."""
    assert MUSE_30B.window is not None and isinstance(MUSE_30B.pattern, list)
    rows = sum(min(depth, MUSE_30B.window) if slides else depth for slides in MUSE_30B.pattern)
    return rows * KV_ROW_BYTES


def table() -> list[str]:
    rates = [f"{bandwidth / 1e9:.0f} GB/s" for bandwidth in BANDWIDTHS]
    lines = ["| depth | width | bytes a pass | " + " | ".join(rates) + " |", "| --- " * (3 + len(rates)) + "|"]
    for depth in DEPTHS:
        for width in (1, 2, 3, 4):
            read = weight_bytes() + width * kv_bytes(depth)
            speeds = [f"{width * bandwidth / read:.1f}" for bandwidth in BANDWIDTHS]
            lines.append(f"| {depth:,} | {width} | {read:,} | " + " | ".join(speeds) + " |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
