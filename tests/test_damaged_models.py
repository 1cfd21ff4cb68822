"""Files that have the right form and wrong contents: the error says that it is the model, and which one."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from engines import SHIPPED

import muser
from muser import LogitsError, Model, ModelFormatError, ParameterError, UnsupportedModelError
from muser._muser import GgufFile


def damaged(tmp_path: Path, at: int, data: bytes) -> Path:
    path = tmp_path / "damaged.gguf"
    shutil.copy(SHIPPED, path)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
    return path


@pytest.fixture
def nan_model(tmp_path):
    [(offset, nbytes)] = [(o, n) for name, _, _, o, n in GgufFile(SHIPPED).tensors() if name == "output_norm.weight"]
    path = damaged(tmp_path, offset, np.full(nbytes // 4, np.nan, np.float32).tobytes())
    with Model.load(path, context=64, slots=2, threads=1) as model:
        yield model


@pytest.mark.parametrize("temperature", [0, 1])
def test_logits_that_the_model_spoiled_are_its_own_error(nan_model, temperature):
    calls = [lambda: nan_model.generate("a", temperature=temperature), lambda: list(nan_model.stream("a", temperature=temperature))]
    with nan_model.session() as session:
        session.prefill("a")
        for call in [*calls, lambda: session.sample(muser.Sampler(temperature=temperature))]:
            with pytest.raises(LogitsError, match=r"logits\[0\] is NaN") as caught:
                call()
            assert caught.value.path == nan_model.path and nan_model.path in str(caught.value)
            assert caught.value.index == 0
        with pytest.raises(ParameterError):  # here the array is the caller's argument
            muser.Sampler(temperature=temperature).sample(session.logits)
        assert session.position == len(session.tokens) > 0
    assert nan_model.health().ok
    assert nan_model.slots.stats().free == 2


@pytest.mark.parametrize("base", [1e-45, 1e-3, 0.99, 1.1e12, 3e38])
def test_an_absurd_rope_base_is_refused(tmp_path, base):
    key = b"muse-glimmer.rope.freq_base"
    at = SHIPPED.read_bytes().index(key) + len(key) + 4
    path = damaged(tmp_path, at, struct.pack("<f", base))
    with pytest.raises(UnsupportedModelError, match=r"rope\.freq_base") as caught:
        Model.load(path, context=64)
    assert caught.value.path == str(path)


@pytest.mark.parametrize(
    "key, element, bad",
    [
        ("tokenizer.ggml.merges", "Ġt he".encode(), "Ġt!he".encode()),  # found out by the first encode
        ("tokenizer.ggml.tokens", "Ġthe".encode(), "Ġtoo".encode()),  # at once
    ],
)
def test_a_damaged_vocabulary_says_where(tmp_path, key, element, bad):
    data = SHIPPED.read_bytes()
    entry = data.index(struct.pack("<Q", len(key)) + key.encode())
    at = data.index(struct.pack("<Q", len(element)) + element, entry) + 8
    path = damaged(tmp_path, at, bad)
    assert GgufFile(path).offsets()[key] == entry
    with Model.load(path, context=64, threads=1) as model, pytest.raises(ModelFormatError, match=key) as caught:
        model.tokenize("a")
    assert (caught.value.path, caught.value.offset) == (str(path), entry)
    assert str(path) in str(caught.value) and f"(at byte {entry})" in str(caught.value)
