"""tools/shape_model.py: any shape loads and computes, the file is what the dry run says, and a seed is enough."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from engines import open_engine, stepwise
from toy import ALL_TYPES, ARCHITECTURES

import muser
from muser.cli import main as cli

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the tools are run from the root, as modules
from tools import shape_model  # noqa: E402, RUF100
from tools.shapes import shape as shapes  # noqa: E402, RUF100
from tools.shapes import values, writer  # noqa: E402, RUF100
from tools.shapes.errors import NoSpaceError, ShapeError  # noqa: E402, RUF100
from tools.shapes.tensors import Tensor  # noqa: E402, RUF100

MIXES = (*ALL_TYPES, "Q4_K_M", "Q5_K_M")


def small(arch: str, **changes: object) -> shapes.Shape:
    return shapes.find(f"small-{arch}", changes)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_family_and_weight_type_gives_finite_varied_logits(arch: str, mix: str, tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    writer.write(small(arch, mix=mix), path, seed=3)
    rows = stepwise(open_engine(path), np.random.default_rng(1).integers(0, 256, 12))
    assert np.isfinite(rows).all()
    assert (rows.std(axis=1) > 0.1).all() and np.abs(rows).max() < 100
    assert len(set(rows.argmax(axis=1).tolist())) > 2, "the tokens make no difference"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_tokenizer_loads_and_text_goes_in_and_out(arch: str, tmp_path: Path) -> None:
    writer.write(small(arch, vocab=1000), tmp_path / "small.gguf", seed=0)
    with muser.Model.load(tmp_path / "small.gguf", slots=1) as model:
        assert model.tokenizer.vocab_size == 1000
        assert model.tokenizer.decode(model.tokenizer.encode("the llama", add_bos=False)) == "the llama"
        assert model.generate("the", max_tokens=4, ignore_eos=True, seed=1).usage.completion_tokens == 4


def test_activations_keep_their_size_through_many_layers(tmp_path: Path) -> None:
    for arch in ("llama", "muse-glimmer"):
        writer.write(small(arch, layers=40, context=64), tmp_path / "deep.gguf", seed=0)
        rows = stepwise(open_engine(tmp_path / "deep.gguf"), range(300, 304))
        assert np.isfinite(rows).all() and (rows.std(axis=1) > 0.1).all() and np.abs(rows).max() < 100


def test_a_seed_gives_the_bytes(tmp_path: Path) -> None:
    content = []
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        writer.write(small("qwen3", mix="Q4_K_M"), tmp_path / name, seed)
        content.append((tmp_path / name).read_bytes())
    assert content[0] == content[1] != content[2]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("mix", ["F16", "Q4_0", "Q5_K_M"])
def test_the_dry_run_says_the_size(
    arch: str, mix: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "small.gguf"
    command = [f"small-{arch}", str(path), "--set", "vocab=777", "layers=5", "--mix", mix]
    assert shape_model.main([*command, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert not path.exists()
    assert shape_model.main(command) == 0
    assert f" {path.stat().st_size:,} bytes in the file" in told


def test_muse_glimmer_30b_is_the_published_file() -> None:
    """muse-glimmer-30B-kquant-17gb.gguf has 16,756,681,056 bytes; 13,113,696 of them are in front of its tensors."""
    plan = writer.plan(shapes.find("muse-glimmer-30b"))
    assert plan.tensor_bytes == 16_756_681_056 - 13_113_696
    assert Counter(t.type for t in plan.tensors) == {"F32": 313, "Q4_K": 365, "Q5_K": 1, "Q6_K": 52}
    embedding = next(t for t in plan.tensors if t.name == "token_embd.weight")
    assert plan.tensor_bytes - embedding.nbytes == 15_987_099_648  # read by a decode step


def test_memory_of_muse_glimmer_30b_from_its_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole file, sparse: only its head is read. 131,072 rows: 13 planes grow, 39 are rings of 2,048 + 512 rows."""
    shape = shapes.find("muse-glimmer-30b")
    planned, path = writer.plan(shape), tmp_path / "muse.gguf"
    writer.write_header(shape, planned.tensors, path)
    with path.open("r+b") as file:
        file.truncate(planned.file_bytes)
    exact_rings = 13 * 131_072 * 1024 + 39 * 2048 * 1024  # what one slot takes at the least: 1.827 GB, four 7.306 GB
    assert (exact_rings, 4 * exact_rings) == (1_826_619_392, 7_306_477_568)
    totals = []
    for slots in range(1, 5):
        plan = muser.memory_plan(path, device="cpu", slots=slots, context=131_072, memory_limit=2**40, context_policy="shift")
        assert (plan["growing_planes"], plan["growing_rows"]) == (13, 131_072)
        assert (plan["ring_planes"], plan["ring_rows"], plan["plane_row_bytes"]) == (39, 2048 + 512, 1024)
        assert plan["kv_per_slot"] == plan["staging"] == exact_rings + 39 * 512 * 1024
        totals.append(plan["total"] - slots * 202_048 * 4)
        with pytest.raises(muser.OutOfMemoryError) as caught:
            muser.memory_plan(path, device="cpu", slots=slots, context=131_072, memory_limit=plan["total"] - 1, context_policy="shift")
        assert caught.value.needed == plan["total"]
    assert {b - a for a, b in itertools.pairwise(totals)} == {exact_rings + 39 * 512 * 1024}
    assert cli(["plan", str(path), "--context", "131072"]) == 0
    told = capsys.readouterr().out
    assert "13 growing of 131,072 rows, 39 rings of 2,560 rows; 1,024 a row" in told and f"{exact_rings + 39 * 512 * 1024:,}" in told


def test_llama_8b_has_the_published_mix() -> None:
    """What llama.cpp prints when it loads Meta-Llama-3-8B Q4_K_M: 65 F32, 193 Q4_K and 33 Q6_K tensors, 4.58 GiB."""
    plan = writer.plan(shapes.find("llama-8b"))
    assert Counter(t.type for t in plan.tensors) == {"F32": 65, "Q4_K": 193, "Q6_K": 33}
    assert round(plan.tensor_bytes / 2**30, 2) == 4.58


@pytest.mark.parametrize("kind", ALL_TYPES)
def test_weights_have_the_deviation_that_was_asked(kind: str) -> None:
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    data = np.concatenate(list(values.pieces(Tensor("x", (64, 4096), kind, 0.0, 0.02), seed=1)))
    if kind not in ("F32", "F16"):
        weights = dequantize(data, GGMLQuantizationType[kind])
    else:
        weights = data.view(np.float32 if kind == "F32" else np.float16)
    assert weights.size == 64 * 4096 and weights.std() == pytest.approx(0.02, rel=0.1)


def test_pieces_are_bounded_and_no_row_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "PIECE", 10_000)
    pieces = list(values.pieces(Tensor("x", (200, 512), "Q4_K", 0.0, 1.0), seed=1))
    assert max(map(len, pieces)) <= 10_000 and sum(map(len, pieces)) == 200 * 2 * 144
    rows = np.concatenate(pieces).reshape(200, -1)
    assert len(np.unique(rows, axis=0)) == 200


def test_a_shape_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(
        json.dumps({"base": "llama-8b", "layers": 2, "types": {"*.attn_v.weight": "F16"}})
    )
    arguments = [str(tmp_path / "mine.json"), "--set", "vocab=400", "--type", "blk.1.*_v.weight=Q8_0"]
    parsed = shape_model.parser().parse_args(arguments)
    shape = shapes.find(parsed.shape, shape_model.changes(parsed))
    types = {t.name: (t.type, t.shape) for t in writer.plan(shape).tensors}
    assert shape.name == "mine" and len(types) == 3 + 2 * 9
    assert types["output.weight"] == ("Q6_K", (400, 4096))
    assert types["blk.0.attn_v.weight"] == ("F16", (1024, 4096))
    assert types["blk.1.attn_v.weight"] == ("Q8_0", (1024, 4096))


@pytest.mark.parametrize(
    "name, changes, said",
    [
        ("nope", {}, "no shape is called 'nope'"),
        ("small-llama", {"arch": "mamba"}, "arch must be one of"),
        ("small-llama", {"mix": "Q9"}, "mix must be one of"),
        ("small-llama", {"types": {"output.weight": "Q9"}}, "the type of output.weight"),
        ("small-llama", {"layer": 3}, "a shape has no layer"),
        ("small-llama", {"layers": 0}, "layers must be a positive integer"),
        ("small-llama", {"layers": "many"}, "layers must be a positive integer"),
        ("small-llama", {"vocab": 10}, "vocab must be at least"),
        ("small-llama", {"d_model": 320, "mix": "Q4_K"}, "needs a multiple of 256"),
    ],
)
def test_what_no_file_can_have_is_refused(name: str, changes: dict, said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        writer.plan(shapes.find(name, changes))


def test_a_full_disk_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    path = tmp_path / "small.gguf"
    usage = writer.shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(writer.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(NoSpaceError) as caught:
        writer.write(small("llama"), path, seed=0)
    assert caught.value.available == 1000 < caught.value.needed == writer.plan(small("llama")).file_bytes
    assert shape_model.main(["small-llama", str(path)]) == 1
    assert "shape_model: the file needs" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_interrupted_write_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    path.write_bytes(b"the one before")

    def interrupt(written: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writer.write(small("llama"), path, seed=0, report=interrupt)
    assert path.read_bytes() == b"the one before" and list(tmp_path.iterdir()) == [path]


def test_the_large_bench_runs_on_a_small_one(tmp_path: Path) -> None:
    """Its table and its figures; no timing is judged."""
    writer.write(small("llama", vocab=4000, context=4096), tmp_path / "small.gguf", seed=0)
    command = [sys.executable, "-m", "tests.perf.large", str(tmp_path / "small.gguf"), "--threads", "1"]
    done = subprocess.run(
        [*command, "--repeats", "2", "--streamed-mib", "8", "--json", str(tmp_path / "out.json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len([line for line in done.stdout.splitlines() if line.startswith("|")]) == 2 + 5
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert [row["job"]["width"] for row in rows] == [1, 2, 3, 4, 1]
    assert all(len(row["figures"]) == len(row["floors"]) == 2 for row in rows)
