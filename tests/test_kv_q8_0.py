"""Keys and values in q8_0: what is stored, what it takes, which models it suits, and that sessions of Model.tiny with it shift,
are saved and go on. Exactness and session state are tested beside the other types: test_exactness.py, test_session_state.py.
"""

from __future__ import annotations

import mmap
from pathlib import Path

import kv_quants
import numpy as np
import pytest
from engines import open_engine, prefill
from toy import write_toy

import muser
from muser.errors import ParameterError, SessionFileError


def first_plane(engine, n: int) -> np.ndarray:
    """uint8 [n, bytes of a row]: the first layer's keys and values."""
    data = engine.snapshot(0)
    words = data[: 4 * 8].view(np.uint32)
    n_planes, vocab, row_bytes = int(words[4]), int(words[5]), int(words[7])
    at = 4 * (6 + 2 * n_planes + n + vocab)
    return data[at : at + n * row_bytes].reshape(n, row_bytes)


@pytest.mark.parametrize("head_dim", [32, 64, 96])
def test_the_first_layer_holds_what_the_definition_says(tmp_path: Path, head_dim: int) -> None:
    path, n, heads = tmp_path / "toy.gguf", 40, 2
    write_toy(path, "llama", head_dim=head_dim, heads=4, kv_heads=heads, layers=1)
    tokens = np.random.default_rng(1).integers(0, 256, n)
    rows = {}
    for kv in ("f32", "q8_0"):
        engine = open_engine(path, kv_dtype=kv)
        prefill(engine, tokens)
        rows[kv] = first_plane(engine, n)
    plain = np.ascontiguousarray(rows["f32"]).view(np.float32).reshape(n, 2 * heads, head_dim)
    assert rows["q8_0"].tobytes() == kv_quants.rows(plain)


def test_the_plan_is_exact_to_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    write_toy(path, "muse-glimmer", head_dim=64, layers=4, context=2048)
    plan = muser.memory_plan(path, device="cpu", slots=2, context=1000, kv_dtype="q8_0", memory_limit=2**40)
    row = 2 * 2 * 64 // 32 * 34  # keys and values, two heads, 34 bytes for 32 of them
    rows = 1024 + 3 * 576  # one growing plane; rings of window + 512, in whole blocks of 64
    assert plan["plane_row_bytes"] == row
    assert plan["kv_per_slot"] == -(-row * rows // mmap.PAGESIZE) * mmap.PAGESIZE
    f16 = muser.memory_plan(path, device="cpu", slots=2, context=1000, memory_limit=2**40)
    assert plan["total"] - f16["total"] == 2 * (plan["kv_per_slot"] - f16["kv_per_slot"])
    assert (plan["kv_dtype"], f16["kv_dtype"]) == ("q8_0", "f16")
    with muser.Model.load(path, device="cpu", slots=2, context=1000, kv_dtype="q8_0") as model:
        assert model.memory_plan()["kv_per_slot"] == plan["kv_per_slot"]
        assert model.kv_dtype == model.memory_plan()["kv_dtype"] == "q8_0"


def test_heads_that_the_blocks_do_not_divide_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    write_toy(path, "llama", head_dim=80)
    for refused in (muser.memory_plan, muser.Model.load):
        with pytest.raises(ParameterError, match=r'kv_dtype "q8_0" needs .* multiple of 32 .* have 80') as caught:
            refused(path, device="cpu", kv_dtype="q8_0")
        assert caught.value.parameter == "kv_dtype"


def test_sessions_of_the_tiny_model(tmp_path: Path) -> None:
    context = 384
    ids = np.random.default_rng(0).integers(0, 900, context).tolist()
    options = {"kv_dtype": "q8_0", "context": context, "slots": 2}
    with muser.Model.tiny(context_policy="shift", **options) as model, model.session() as session:
        session.prefill(ids)
        dropped = session.shift(60)
        with model.session() as cold:
            cold.prefill(ids[:60] + ids[60 + dropped :])
            assert session.decode(5).tobytes() == cold.decode(5).tobytes()
        session.save(tmp_path / "session")
        following = [session.decode(token).tobytes() for token in ids[:20]]
    with muser.Model.tiny(**options) as again, again.restore(tmp_path / "session") as session:
        assert [session.decode(token).tobytes() for token in ids[:20]] == following
    with muser.Model.tiny(context=context) as other, pytest.raises(SessionFileError, match="kv_dtype"):
        other.restore(tmp_path / "session")
