"""The fibers and the Objective-C runtime on this processor and, under qemu, on aarch64."""

from __future__ import annotations

import subprocess

import pytest
from metal_sim import native_programs
from metal_sim.tools import require_clang
from native_tools import tool

require_clang()


@pytest.mark.parametrize("program", [native_programs.run_norm, native_programs.messages], ids=["fibers", "messages"])
@pytest.mark.parametrize("processor", ["native", "aarch64"])
def test_program(program, processor):
    command = []
    if processor == "aarch64":
        tool("aarch64-linux-gnu-g++")  # its libraries
        command = [tool("qemu-aarch64")]
    path = program(processor == "aarch64")
    result = subprocess.run([*command, path], check=False, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, f"exit status {result.returncode}: {result.stdout}{result.stderr}"
