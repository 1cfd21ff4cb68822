"""One wheel for every x86-64-v2 machine: on an emulated CPU of 2008 the extension runs and gives the same bits."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
from native_tools import tool

SCRIPT = """
import sys
from muser import Model, system_info
with Model.tiny(context=64, slots=1, threads=1) as model, model.session() as session:
    session.prefill("Once upon a time")
    sys.stdout.buffer.write(session.logits.tobytes())
    print(system_info()["cpu"], file=sys.stderr)
"""


def run(*prefix: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*prefix, sys.executable, "-c", SCRIPT], capture_output=True, timeout=280, check=True)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="emulates an old x86-64 machine")
def test_x86_64_v2_without_avx(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Nehalem")  # numpy's own choice reads the host's CPU under emulation
    here, there = run(), run(tool("qemu-x86_64"), "-cpu", "Nehalem")
    assert b"level portable" in there.stderr
    assert len(here.stdout) > 0
    assert here.stdout == there.stdout
