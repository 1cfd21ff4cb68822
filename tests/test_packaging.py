"""What ``pip install .`` leaves behind: the package, its data and nothing of the workshop."""

from __future__ import annotations

import importlib.metadata

import pytest

import muser


def installed() -> importlib.metadata.Distribution:
    try:
        found = importlib.metadata.distribution("muser")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("muser is used from its source tree here")
    assert found.files is not None
    return found


def test_the_wheel_holds_the_package_and_nothing_else():
    files = [f.as_posix() for f in installed().files]
    inside = [f for f in files if f.startswith("muser/") and "__pycache__" not in f]
    assert {f.rsplit(".", 1)[-1] for f in inside} <= {"py", "pyi", "so", "gguf", "typed"}
    outside = [f for f in files if not f.startswith(("muser/", "muser-"))]
    assert [f for f in outside if not f.endswith("/bin/muser")] == []
    for needed in ("muser/py.typed", "muser/_muser.pyi", "muser/data/muse-tiny-Q4_K_M.gguf", "muser/data/dflash-tiny-Q8_0.gguf"):
        assert needed in files


def test_version_and_licence():
    metadata = installed().metadata
    assert metadata["Version"] == muser.__version__
    assert any(f.name == "LICENSE" for f in installed().files)
