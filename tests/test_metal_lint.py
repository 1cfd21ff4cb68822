"""Every kernel file is Metal, as far as clang and the rules of the subset can tell, and no two kernels share a name."""

from __future__ import annotations

import re

import pytest
from metal_kernels import METAL
from metal_sim import build

FILES = sorted(METAL.glob("*.metal"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_strict_lint(path) -> None:
    build.lint(path)


def test_names_are_unique_and_files_small() -> None:
    names = [n for path in FILES for n in re.findall(r'host_name\("(\w+)"\)|^kernel void (\w+)', path.read_text(), re.MULTILINE)]
    assert len(names) == len(set(names)) > 190
    assert all(len(path.read_text().splitlines()) < 300 for path in METAL.iterdir())
