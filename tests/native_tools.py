"""Tools that native tests need: found in the virtual environment or on the PATH, or the test says what is missing."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest


def missing(reason: str) -> None:
    """A machine without the tools: an error where everything must have been tested (CI), else a skip."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def tool(name: str) -> str:
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if not found:
        missing(f"{name} is not installed")
    return found
