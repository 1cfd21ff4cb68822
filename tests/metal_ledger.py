"""The work of one pass of Muse Glimmer 30B on Metal, counted on the simulator, beside the fewest bytes it must read.

``python -m tests.metal_ledger`` writes it into docs/metal.md; tests/metal_device_cases.py holds the page to it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "metal.md"
BLOCK = re.compile(r"(?<=<!-- ledger: python -m tests.metal_ledger -->\n).*?(?=<!-- end -->)", re.DOTALL)
COUNTED = ("command_buffers", "encoders", "dispatches", "barriers")
BOUND = re.compile(r" \d+:(\d+)@(\d+)/(\d+)")  # of a dispatch in the trace: index, buffer, offset, bytes
BANDWIDTHS = (273, 546, 800)  # GB/s: M4 Pro, M4 Max, M2 Ultra
CONTEXT = 4096  # tokens before the one that is decoded

Counts = dict[str, dict[str, int]]


def counted(path: Path) -> tuple[Counts, int, int]:
    """Counts by pass (``bytes``: of all buffers that its dispatches bind, each once, from its lowest offset); bytes of
    weights that a decode group reads; bytes of keys and values that one row reads at CONTEXT. In a process whose muser
    has the simulated Metal device; nothing is computed."""
    import numpy as np
    from engines import open_engine, prefill
    from metal_shape import MUSE_30B, write_hole
    from metal_sim import fake_metal

    sizes = write_hole(path)
    passes: Counts = {}
    with fake_metal.setting(execute=0, check=0, trace=1):
        engine = open_engine(path, device="metal", slots=4, context=CONTEXT, memory_limit=1 << 40, kv_dtype="f16")

        def count(name: str, work) -> None:
            fake_metal.clear_counters()
            fake_metal.take_trace()
            work()
            passes[name] = {n: fake_metal.get(n) for n in COUNTED} | {"bytes": bytes_bound(fake_metal.take_trace())}

        count("prefill of 512", lambda: prefill(engine, np.arange(512)))
        for slot in (1, 2, 3):
            prefill(engine, [1], slot=slot)
        for n in (1, 2, 3, 4):
            count(f"decode of {n}", lambda n=n: engine.decode_group(list(range(n)), [7] * n, timeout=60.0))
    m = MUSE_30B
    vectors = 4 * ((4 * m.layers + 1) * m.d_model + 2 * m.layers * m.head_dim)
    read = sum(n for name, n in sizes.items() if name != "token_embd.weight") + vectors
    keys = sum(min(CONTEXT, m.window) if slides else CONTEXT for slides in m.pattern)
    return passes, read, keys * m.kv_heads * m.head_dim * 2 * 2


def bytes_bound(trace: list[str]) -> int:
    bound: dict[str, int] = {}
    for line in trace:
        for buffer, offset, size in BOUND.findall(line) if line.startswith("dispatch ") else ():
            bound[buffer] = max(bound.get(buffer, 0), int(size) - int(offset))
    return sum(bound.values())


def block(passes: Counts, read: int, kv: int, layers: int) -> str:
    lines = ["| pass | command buffers | encoders | dispatches (a layer) | barriers (a layer) | bytes bound |",
             "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for name, n in passes.items():
        of_layer = [f"{n[what]} ({n[what] / layers:.1f})" for what in ("dispatches", "barriers")]
        lines.append(f"| {name} | {n['command_buffers']} | {n['encoders']} | {of_layer[0]} | {of_layer[1]} | {n['bytes']:,} |")
    lines += ["", f"Weights that a decode group reads once: {read:,} bytes; keys and values of a row at {CONTEXT:,} tokens:",
              f"{kv:,} bytes. The floor in bytes, and in tokens a second of all rows together:", "",
              "| rows | bytes | " + " | ".join(f"{b} GB/s" for b in BANDWIDTHS) + " |",
              "| --- | --- |" + " --- |" * len(BANDWIDTHS)]  # fmt: skip
    for n in (1, 2, 3, 4):
        size = read + n * kv
        lines.append(f"| {n} | {size:,} | " + " | ".join(f"{n * b * 1e9 / size:.1f}" for b in BANDWIDTHS) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    if "counting" not in sys.argv:
        from metal_sim import extension

        subprocess.run([sys.executable, __file__, "counting"], check=True, env=extension.environment())
        return
    from metal_shape import MUSE_30B

    with tempfile.TemporaryDirectory() as folder:
        text = block(*counted(Path(folder) / "muse.gguf"), MUSE_30B.layers)
    PAGE.write_text(BLOCK.sub(lambda _: text, PAGE.read_text()))
    print(text)


if __name__ == "__main__":
    sys.path.insert(0, os.fspath(HERE))
    main()
