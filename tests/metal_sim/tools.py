"""What a machine needs to run the simulator's tests: missing, it is a failure in CI and a skip elsewhere."""

from __future__ import annotations

import shutil

from native_tools import missing

from .translate.preprocess import CLANG


def require_clang() -> None:
    """At import of a test file."""
    if shutil.which(CLANG) is None:
        missing(f"{CLANG} is not installed (apt-get install clang-19)")
