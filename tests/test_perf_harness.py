"""The performance harness runs, prints its table and computes its limits right; no timing is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from engines import SHIPPED
from gguf import GGUFValueType
from toy import write_toy
from variants import with_metadata

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the harness is run from the root, as a module
from tests.perf import table, weights  # noqa: E402, RUF100
from tests.perf.jobs import Job  # noqa: E402, RUF100
from tests.perf.probe import Floors  # noqa: E402, RUF100


def test_one_side_on_the_shipped_model(tmp_path: Path) -> None:
    context = "muse-glimmer.context_length"
    model = with_metadata(  # the jobs go to depth 2048 and beyond
        SHIPPED, tmp_path / "roomy.gguf", lambda m: m.update({context: (4096, GGUFValueType.UINT32, None)})
    )
    command = [sys.executable, "-m", "tests.perf.cpu", str(model), "--only", "muser", "--repeats", "1"]
    done = subprocess.run(
        [*command, "--threads", "1", "--json", str(tmp_path / "out.json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    results = json.loads((tmp_path / "out.json").read_text())[0]["results"]
    assert len(rows) == len(results) + 3 and len(results) == 10
    assert all(figure > 0 for result in results for figure in result["figures"]["muser"])


@pytest.mark.parametrize("tied", [True, False])
def test_weights_of_a_file(tied: bool, tmp_path: Path) -> None:
    """A tied table is the head and is read; an untied one is only looked up."""
    toy = write_toy(tmp_path / "toy.gguf", "llama", tied=tied)
    size = weights.measure(tmp_path / "toy.gguf")
    q, kv = toy.heads * toy.head_dim, toy.kv_heads * toy.head_dim
    layer = toy.d_model * (2 * q + 2 * kv + 3 * toy.d_ff)
    assert size.body_values == toy.layers * layer
    norms = toy.d_model * (2 * toy.layers + 1)
    assert size.decode_bytes == 4 * (size.body_values + size.head_values + norms)


def test_limits() -> None:
    floors, size = Floors(bytes_per_second=1000.0, macs_per_second=1e5), weights.Weights(100, 300, 700)
    assert table.limit(Job("decode", n=8), floors, size) == 10  # ten reads of all weights a second
    assert table.limit(Job("group", n=8, width=4), floors, size) == 40  # shared by four rows
    slow = Floors(bytes_per_second=1e9, macs_per_second=1e5)
    assert table.limit(Job("group", n=8, width=4), slow, size) == 100  # then arithmetic binds
    # the head is met by the last of a prefill's tokens only: 300 + 700 / 7 multiply-adds a token
    assert table.limit(Job("prefill", n=7), slow, size) == 250
    assert table.limit(Job("load", unit="ms"), floors, size) is None
