"""Loading and closing leaves resident memory flat, whether the model was used or not."""

from __future__ import annotations

import subprocess
import sys

import pytest
from engines import SHIPPED

# In a process of its own: pytest's memory moves. The first rounds fill the allocator's and the loader's
# caches.
SCRIPT = """
import gc, sys
import numpy as np
from muser import _muser

def resident():
    gc.collect()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

def once(use):
    engine = _muser.Engine(sys.argv[1], device="cpu", slots=4, context=1024, kv_dtype="f16", threads=2,
                           prefill_patience=16, memory_limit=None)
    if use:
        for slot in range(4):
            engine.prefill(slot, np.arange(100, dtype=np.int32), timeout=None)
        for token in range(8):
            engine.decode_group([0, 1, 2, 3], [token] * 4, timeout=None)
    loaded = resident()
    engine.close()
    return loaded

use = sys.argv[2] == "use"
for _ in range(3):
    loaded = once(use)
before = resident()
for _ in range(20):
    once(use)
print(before, resident(), loaded)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("use", ["use", "load only"])
def test_loading_and_closing_20_times(use: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(SHIPPED), use],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, after, loaded = (int(kib) for kib in done.stdout.split())
    assert loaded > before + 2048, "closing must give the model's memory back"
    assert after - before < 0.01 * before
