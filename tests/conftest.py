"""Fixtures that several test files share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from native_tools import missing


def pytest_configure() -> None:
    """Whatever a script starts in the background ignores Ctrl-C, which some tests press."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _find(name: str) -> Path:
    """The file of a real model: from a folder that the developer names, else from the cache, else fetched."""
    folders = [os.environ.get("MUSER_TEST_MODELS"), Path.home() / ".cache" / "muser"]
    for folder in folders:
        if folder and (path := Path(folder) / f"{name}.gguf").is_file():
            return path
    from muser import hub

    return hub.fetch(name)


@pytest.fixture(scope="session")
def real_model() -> Callable[[str], Path]:
    """``real_model("smollm2")`` or ``("gemma3-270m")``: the GGUF file. Skips without it; under CI=true it fails."""

    def find(name: str) -> Path:
        try:
            return _find(name)
        except Exception as error:
            missing(f"no file of {name}: {type(error).__name__}: {error}")
            raise

    return find
