"""docs/guarantees.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", PAGE)))


@pytest.mark.parametrize("file, name", NAMED)
def test_named_test_exists(file, name):
    path = ROOT / file
    assert path.exists()
    assert not name or re.search(rf"^(async )?def {name}\(", path.read_text(), re.MULTILINE)


def test_every_promise_names_a_test():
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:-1]  # the last one lists limits
    assert len(sections) == 9
    assert all("`tests/" in section for section in sections)
