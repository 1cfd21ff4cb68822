"""What a newcomer's long prompt does to a running stream.

    python -m tests.perf.cpu MODEL.gguf --jobs freeze

One caller streams; once it runs, another one submits the prompt. Measured: the worst gap between two tokens
of the stream while the prompt is being processed, and the newcomer's time to its first token. The same on
llama.cpp and openvino-genai, if they are there, at several numbers of prompt tokens a pass (freeze_llama.py
and freeze_openvino.py say how).
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from tests.perf.compare import SETTLE, Worker
from tests.perf.jobs import Job
from tests.perf.names import ITSELF, LLAMA, OPENVINO, name_of
from tests.perf.record import Freeze

KIND = "freeze"  # of its jobs
PROMPT = 1500
STEPS = {ITSELF: (0,), LLAMA: (256, 64, 32), OPENVINO: (256, 64, 32)}
MODULES = {ITSELF: "freeze_muser", LLAMA: "freeze_llama", OPENVINO: "freeze_openvino"}


def measure(workers: Mapping[str, Worker], repeats: int, prompt: int = PROMPT) -> list[Freeze]:
    """One untimed round, then `repeats`, every other one backwards."""
    found = [Freeze(side, prompt, step) for side in workers for step in STEPS[name_of(side)]]
    for repeat in range(-1, repeats):
        for freeze in found[:: 1 if repeat % 2 else -1]:
            job = Job(KIND, n=prompt, step=freeze.step, unit="s")
            time.sleep(SETTLE)
            gap, first = workers[freeze.side].run(job)
            if repeat >= 0:
                freeze.gaps.append(gap)
                freeze.firsts.append(first)
    return found


if __name__ == "__main__":
    raise SystemExit("tests.perf.freeze is measured by: python -m tests.perf.cpu MODEL.gguf --jobs freeze")
