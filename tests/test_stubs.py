"""The committed type stubs are those of the built extension. After a change: python tools/make_stubs.py"""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).parent.parent / "tools" / "make_stubs.py"))


def normalized(source: str) -> str:
    return ast.unparse(ast.parse(source))  # spelling, not layout, which differs between stub generators


def test_stubs_are_up_to_date():
    assert normalized(TOOL["STUB"].read_text()) == normalized(TOOL["make_stub"]())
