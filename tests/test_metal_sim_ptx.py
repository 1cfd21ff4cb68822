"""Every kernel goes through clang to PTX for NVIDIA's sm_90, and through ptxas where there is one: what tests/gpu runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from metal_sim import build
from metal_sim.tools import require_clang

require_clang()
ROOT = Path(__file__).resolve().parent.parent
FILES = sorted([*(ROOT / "metal").glob("*.metal"), *(ROOT / "tests" / "metal_sim" / "kernels").glob("*.metal")])


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_compiles_to_ptx(path, tmp_path):
    ptx = build.ptx(path)
    entries = re.findall(r"\.entry (\w+)_ptx\(", ptx.read_text())
    assert entries == build.host_names(path)
    if ptxas := shutil.which("ptxas"):
        subprocess.run([ptxas, "-arch=sm_90", ptx, "-o", tmp_path / "out.cubin"], check=True)


def test_function_constants_are_symbols_that_the_host_can_set():
    text = build.ptx(ROOT / "tests" / "metal_sim" / "kernels" / "norm.metal").read_text()
    assert {"weighted_value", "weighted_is_set", "gain_value", "gain_is_set"} <= set(
        re.findall(r"\.visible \.const .* (\w+);", text)
    )
