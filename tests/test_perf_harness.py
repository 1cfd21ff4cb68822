"""The performance harness runs, prints its tables and computes limits and ratios right; no timing is judged."""

from __future__ import annotations

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
from tests.perf import freeze_table, gaps, record, table, targets, weights  # noqa: E402, RUF100
from tests.perf.compare import NotStartedError, Worker, alternate  # noqa: E402, RUF100
from tests.perf.jobs import SETS, Job  # noqa: E402, RUF100
from tests.perf.probe import Floors  # noqa: E402, RUF100
from tests.perf.record import Freeze, Record, Result  # noqa: E402, RUF100

FULL = (targets.SMOLLM2, targets.Q4_1)
PACKED = tuple(Job("group", n=64, depth=32, width=width) for width in (1, 2, 3, 4))


def run(module: str, *arguments: object) -> str:
    command = [sys.executable, "-m", f"tests.perf.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def a_record(model: tuple[str, str] = FULL, **fields: object) -> Record:
    size = weights.Weights(100, 300, 700)
    return Record("x.gguf", model, "cpu", 2, 7, size, load=[0.5], **fields)  # type: ignore[arg-type]


def test_one_side_on_the_shipped_model(tmp_path: Path) -> None:
    """Every job once; the same tables from the file; and the picture, where matplotlib is."""
    context = "muse-glimmer.context_length"
    model = with_metadata(  # the jobs go to depth 2048 and beyond
        SHIPPED, tmp_path / "roomy.gguf", lambda m: m.update({context: (4096, GGUFValueType.UINT32, None)})
    )
    figures = tmp_path / "out.json"
    printed = run("cpu", model, "--only", "muser", "--repeats", 1, "--threads", 1, "--json", figures)
    assert run("report", figures) == printed
    (found,) = record.read([figures])
    assert [r.job for r in found.results] == [job for jobs in SETS for job in jobs]
    assert all(figure > 0 for r in found.results for figure in r.figures["muser"])
    rows = [line for line in printed.splitlines() if line.startswith("|")]
    assert (
        len(rows) == len(found.results) + 3 + 3
    )  # titles, a rule, the gain of packing; then the freeze test
    assert all(0 < gap <= first for f in found.freezes for gap, first in zip(f.gaps, f.firsts, strict=True))
    run("picture", figures, tmp_path / "out.png")
    assert (tmp_path / "out.png").stat().st_size > 1000


@pytest.mark.parametrize("tied", [True, False])
def test_weights_of_a_file(tied: bool, tmp_path: Path) -> None:
    """A tied table is the head and is read; an untied one is only looked up."""
    toy = write_toy(tmp_path / "toy.gguf", "llama", tied=tied)
    size = weights.measure(tmp_path / "toy.gguf")
    q, kv = toy.heads * toy.head_dim, toy.kv_heads * toy.head_dim
    layer = toy.d_model * (2 * q + 2 * kv + 3 * toy.d_ff)
    assert size.body_values == toy.layers * layer
    assert size.last_values == layer - toy.d_model * 2 * kv
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
    # and so are the weights behind the last layer's keys: 300 - 70 + (70 + 700) / 7
    ends = weights.Weights(100, 300, 700, 70)
    assert table.limit(Job("prefill", n=7), slow, ends) == pytest.approx(1e5 / 340)
    assert table.limit(Job("load", unit="ms"), floors, size) is None


def test_ratios_and_targets_of_every_side() -> None:
    """Each other side has a table of its own, and every build of it the same targets."""
    sides = {"muser": [10.0, 30.0, 20.0], "llama.cpp": [8.0] * 3, "llama.cpp (amx)": [5.0] * 3}
    loads = {side: [1 / figure for figure in figures] for side, figures in sides.items()}
    results = [Result(Job("decode", n=128), sides), Result(Job("load", unit="ms"), loads)]
    plain, amx = table.speeds(a_record(results=results))
    assert "| 2.50× | ≥ 2.5 ✓ |" in plain and "| 0.40× | ≤ 0.5 ✓ |" in plain
    assert "llama.cpp (amx)" in amx and "| 4.00× | ≥ 2.5 ✓ |" in amx
    (other, _) = table.speeds(a_record(("unknown", ""), results=results))
    assert "| 2.50× | – |" in other  # no targets for a model that nobody set them for
    assert targets.target(FULL, "openvino-genai (f32)", Job("prefill", n=512)) == targets.Target(1.2)
    short = table.at_once(a_record(results=results))
    assert "| 20.0 (10.0–30.0) | – | 8.0, 2.50×, ≥ 2.5 ✓ | 5.0, 4.00×, ≥ 2.5 ✓ |" in short


def test_the_gain_of_packing_is_taken_within_a_repeat() -> None:
    figures = [{"muser": [w * f for f in (10.0, 20.0, 40.0)], "llama.cpp": [5.0] * 3} for w in (1, 2, 3, 4)]
    results = [Result(job, f) for job, f in zip(PACKED, figures, strict=True)]
    (printed,) = table.speeds(a_record(results=results))
    expected = "| width 4 over own width 1 | × | 4.00 (4.00–4.00) | 1.00 (1.00–1.00) | – | ≥ 2.5 ✓ |"
    assert expected in printed


def test_worst_gap() -> None:
    """From the stream's last token before the prompt came, to the newcomer's first, whatever is still open."""
    assert gaps.worst_gap([0.5, 1.0, 1.75, 2.0, 9.0], start=1.25, first=2.25) == 0.75
    assert gaps.worst_gap([1.0, 1.5], start=1.25, first=3.0) == 1.5


def test_ahead_means_on_both() -> None:
    found = [
        Freeze("muser", 9, 0, [0.05], [1.3]),
        Freeze("a", 9, 64, [0.06], [1.4]),
        Freeze("b", 9, 8, [0.1], [1]),
    ]
    lines = freeze_table.freezes(a_record(freezes=found)).splitlines()
    assert "gap ≤ 60 ✓, first token ≤ 1200 ✗" in lines[2]
    assert "| not ahead" not in lines[3] and "| not ahead" in lines[4]


def test_records_of_several_runs_are_one_table(tmp_path: Path) -> None:
    job, again = Job("decode", n=128), Job("prefill", n=512)
    record.write(tmp_path / "a.json", [a_record(results=[Result(job, {"muser": [1.0]})])])
    later = [Result(job, {"muser": [2.0]}), Result(again, {"muser": [3.0]}, Floors(1.0, 2.0))]
    record.write(
        tmp_path / "b.json", [a_record(results=later, freezes=[Freeze("muser", 9, 0, [0.1], [1.0])])]
    )
    (merged,) = record.read([tmp_path / "a.json", tmp_path / "b.json"])
    assert merged.results == later and len(merged.freezes) == 1 and merged.load == [0.5, 0.5]


def test_sides_take_turns() -> None:
    """One untimed round, then every other one backwards, jobs and sides."""
    calls: list[str] = []

    class Fake:
        def __init__(self, side: str) -> None:
            self.side = side

        def run(self, job: Job) -> float:
            calls.append(f"{self.side}{job.n}")
            return float(len(calls))

    sides = {"a": Fake("a"), "b": Fake("b")}
    figures = alternate(sides, [Job("x", n=1), Job("x", n=2)], 2, lambda: None, 0)  # type: ignore[arg-type]
    forth, back = ["a1", "b1", "a2", "b2"], ["b2", "a2", "b1", "a1"]
    assert calls == forth + back + forth
    assert figures[0] == {"a": [8.0, 9.0], "b": [7.0, 10.0]}


def test_a_side_that_cannot_load_a_model_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with (
        pytest.raises(NotStartedError, match="muser worker ended"),
        Worker("muser", "muser_side", str(tmp_path / "missing.gguf"), 1),
    ):
        pass
