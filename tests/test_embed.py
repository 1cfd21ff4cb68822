"""Embeddings: the hidden states after the final norm, pooled, against transformers' record and the numpy reference of
every family; the same for any chunking and in company."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import toy_reference
from engines import DATA, open_engine
from fake_engine import fake_model, free_slots
from toy import VARIANTS, write_toy

from muser import ContextFullError, Model, ParameterError


def pooled(hidden: np.ndarray, pooling: str) -> np.ndarray:
    return {"mean": hidden.mean(0), "last": hidden[-1], "cls": hidden[0]}[pooling]


def final_hidden(path, residual: np.ndarray) -> np.ndarray:
    file = toy_reference.File(path, np.float64)
    eps = file.key("attention.layer_norm_rms_epsilon")
    return toy_reference.rms(residual.astype(np.float64), eps, file.weight("output_norm.weight"))


@pytest.mark.parametrize("pooling", ["mean", "last", "cls"])
def test_transformers(pooling):
    """The residuals that transformers recorded for this model (tools/tiny_reference.py), normed and pooled."""
    path, reference = DATA / "muse-tiny-f32.gguf", np.load(DATA / "muse-tiny.npz")
    expected = pooled(final_hidden(path, reference["residuals"][-1]), pooling)
    row = open_engine(path).embed(0, reference["ids"], pooling, None)
    assert row.dtype == np.float32 and row.shape == expected.shape
    assert np.abs(row - expected).max() < 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "gemma3"])
def test_every_family(name, tmp_path):
    arch, overrides = VARIANTS[name]
    path = tmp_path / "toy.gguf"
    write_toy(path, arch, seed=5, **overrides)
    ids = np.random.default_rng(5).integers(0, 256, 40).astype(np.int32)
    hidden = final_hidden(path, toy_reference.forward(path, ids)[1][-1])
    engine = open_engine(path)
    for pooling in ("mean", "last", "cls"):
        engine.reset(0)
        assert np.abs(engine.embed(0, ids, pooling, None) - pooled(hidden, pooling)).max() < 1e-4


@pytest.fixture(scope="module")
def model():
    with Model.tiny(context=1024) as model:
        yield model


def test_texts_ids_normalization_and_company(model):
    texts = ["A cow says moo.", "The sun", model.tokenize("A cow says moo."), [7] * 1024]
    rows = model.embed(texts)
    assert rows.dtype == np.float32 and rows.shape == (4, model._core.engine().width)
    assert np.abs(np.linalg.norm(rows, axis=1) - 1).max() < 1e-6
    assert np.array_equal(rows[0], rows[2]) and not np.array_equal(rows[0], rows[1])
    raw = model.embed(texts, normalize=False)
    assert np.abs(raw / np.linalg.norm(raw, axis=1, keepdims=True) - rows).max() < 1e-6
    with ThreadPoolExecutor(3) as pool:  # other chunks, and neighbours
        decoding = pool.submit(model.generate, "Once", max_tokens=200, ignore_eos=True)
        again = list(pool.map(lambda _: model.embed(texts), range(2)))
        decoding.result()
    assert all(np.array_equal(rows, other) for other in again)
    assert np.array_equal(asyncio.run(model.aembed(texts)), rows)
    assert model.embed([]).shape == (0, rows.shape[1])
    assert free_slots(model) == 4


def test_refused_before_anything_runs():
    model = fake_model(context=16)
    for texts in ("text", b"text", None, 5, ["a", None], ["a", [-1]], ["a", []]):
        with pytest.raises(ParameterError, match="texts"):
            model.embed(texts)
    with pytest.raises(ContextFullError, match=r"texts\[1\]"):
        model.embed(["a", "b" * 16])
    with pytest.raises(ParameterError, match="pooling must be"):
        model.embed(["a"], pooling="max")
    with pytest.raises(ParameterError, match="normalize"):
        model.embed(["a"], normalize=1)
    assert not model.engine.log and free_slots(model) == 4
