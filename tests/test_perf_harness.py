"""The performance harness runs and prints its table (one repeat, our side only); no figure is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from engines import SHIPPED
from gguf import GGUFValueType
from variants import with_metadata

ROOT = Path(__file__).parent.parent


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
    assert len(rows) == len(results) + 2 and len(results) == 10
    assert all(figure > 0 for result in results for figure in result["figures"]["muser"])
