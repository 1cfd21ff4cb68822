"""The analytic floor in docs/metal.md is what the shape gives."""

from __future__ import annotations

from pathlib import Path

import metal_floor


def test_the_page_has_the_table() -> None:
    page = (Path(__file__).parent.parent / "docs" / "metal.md").read_text()
    assert "\n".join(metal_floor.table()) in page


def test_the_bytes_are_those_of_the_published_file() -> None:
    assert metal_floor.weight_bytes() == 15_987_099_648
    assert metal_floor.kv_bytes(2048) == 52 * 2048 * 1024
    assert metal_floor.kv_bytes(32768) == (13 * 32768 + 39 * 2048) * 1024
