"""Arrows between the C++ folders go one way: down the list in docs/architecture.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = re.findall(r"^csrc/(\w+)/ ", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
FILES = sorted(path for path in (ROOT / "csrc").rglob("*") if path.suffix in (".h", ".cpp"))


def folders_included(text: str) -> set[str]:
    return {folder for folder in re.findall(r'#include "(\w+)/', text) if folder in LAYERS}


def test_every_folder_is_in_the_list():
    assert sorted(LAYERS) == sorted({path.relative_to(ROOT / "csrc").parts[0] for path in FILES})


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_includes_only_what_is_below_it(layer):
    upward = {
        str(path.relative_to(ROOT)): above
        for path in FILES
        if path.relative_to(ROOT / "csrc").parts[0] == layer
        and (above := folders_included(path.read_text()) & set(LAYERS[: LAYERS.index(layer)]))
    }
    assert not upward


def test_the_scheduler_knows_nothing_but_core():
    included = set().union(*(folders_included(path.read_text()) for path in (ROOT / "csrc" / "sched").iterdir()))
    assert included == {"sched", "core"}


def test_the_model_names_no_device_and_only_the_bindings_know_python():
    for path in FILES:
        layer = path.relative_to(ROOT / "csrc").parts[0]
        text = path.read_text()
        if layer == "model":
            assert not re.search(r'#include "device/(?!device\.h)', text), path
        if layer != "bindings":
            assert not re.search(r"Python\.h|nanobind/", text), path
