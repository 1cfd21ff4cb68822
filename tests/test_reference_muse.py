"""Muse Glimmer against transformers: a random tiny model with every quirk of the architecture
(tools/tiny_reference.py).

float32 weights and KV must agree to 1e-4 on logits of +-6, in one pass and token by token, past the window
of 16 and past the ring of 528 rows. Other weight types are compared with the float32 logits of their
dequantized weights.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import toy_reference
from accuracy import pooled, relative_rms
from engines import DATA, decode, greedy, open_engine, prefill, stepwise
from gguf import GGUFValueType
from variants import with_metadata, with_scalar_pattern, with_weights

from muser import _muser

TINY = DATA / "muse-tiny-f32.gguf"
WIDE = DATA / "muse-256-q4_k_m.gguf"
TOLERANCE = 1e-4
LLAMA_CPP = json.loads((DATA / "llama_cpp" / "tiny.json").read_text())
# What a 16-bit file may lose at most, whatever llama.cpp loses (docs/accuracy.md).
CEILING = {"F16": 0.001, "BF16": 0.008}
# For q8_0 both engines round activations to int8 in blocks of 32: the same error in expectation. The ratio
# of two such errors scatters, over these sequences, by 0.25 % (muse-256) and 1 % (muse-tiny, which
# amplifies more); three times that.
SCATTER = {("muse-256", "Q8_0"): 0.0075, ("muse-tiny", "Q8_0"): 0.03}


@pytest.fixture(scope="module")
def reference() -> dict[str, np.ndarray]:
    return dict(np.load(DATA / "muse-tiny.npz"))


@pytest.fixture(scope="module")
def long_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The float32 file with room for more rows than a ring holds."""
    target = tmp_path_factory.mktemp("long") / "muse-tiny-1024.gguf"
    return with_metadata(
        TINY, target, lambda m: m.update({"muse-glimmer.context_length": (1024, GGUFValueType.UINT32, None)})
    )


def worst(actual: np.ndarray, expected: np.ndarray) -> float:
    assert actual.shape == expected.shape and np.isfinite(actual).all()
    return float(np.abs(actual - expected).max())


def test_one_pass_gives_the_reference_logits_and_residuals(reference: dict[str, np.ndarray]) -> None:
    logits, residuals = _muser.testing.forward_taps(str(TINY), reference["ids"], kv_dtype="f32", threads=1)
    for layer, (actual, expected) in enumerate(zip(residuals, reference["residuals"], strict=True)):
        share = worst(actual, expected) / float(np.abs(expected).max())  # residuals reach +-20, logits +-6
        assert share < TOLERANCE / 6, f"residual before layer {layer}"
    assert worst(logits, reference["logits"]) < TOLERANCE


def test_token_by_token_gives_the_reference_logits(reference: dict[str, np.ndarray]) -> None:
    logits = stepwise(open_engine(TINY), reference["ids"])
    assert worst(logits, reference["logits"]) < TOLERANCE


@pytest.mark.parametrize("chunk", [1, 640])
def test_past_the_ring(reference: dict[str, np.ndarray], long_model: Path, chunk: int) -> None:
    engine = open_engine(long_model, context=640)
    assert engine.memory_plan()["ring_rows"] < 640, "the test must wrap the ring"
    positions = reference["ring_positions"].tolist()
    rows, at = [], 0
    for position in positions:  # stop at every recorded position; chunk 1 is token by token
        rows.append(prefill(engine, reference["ring_ids"][at : position + 1], chunk=chunk))
        at = position + 1
    assert worst(np.stack(rows), reference["ring_logits"]) < TOLERANCE


def test_greedy_ids(reference: dict[str, np.ndarray]) -> None:
    assert greedy(open_engine(TINY), reference["prompt"], 24) == reference["greedy"].tolist()


def test_both_forms_of_the_layer_pattern_are_the_same_model(
    reference: dict[str, np.ndarray], tmp_path: Path
) -> None:
    scalar = with_scalar_pattern(TINY, tmp_path / "scalar.gguf")
    flags, number = (stepwise(open_engine(path), reference["ids"]) for path in (TINY, scalar))
    assert flags.tobytes() == number.tobytes()


def test_the_numpy_reference_is_transformers(reference: dict[str, np.ndarray]) -> None:
    """So that the gates below may use it for any file and any tokens."""
    wide = np.load(DATA / "muse-256.npz")
    assert worst(toy_reference.logits(TINY, reference["ids"]), reference["logits"]) < TOLERANCE
    assert worst(toy_reference.logits(WIDE, wide["ids"]), wide["logits"]) < TOLERANCE


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_K_M"])
@pytest.mark.parametrize("name", ["muse-tiny", "muse-256"])
def test_other_weight_types_are_as_accurate_as_llama_cpp(name: str, kind: str, tmp_path: Path) -> None:
    if f"{name} {kind}" not in LLAMA_CPP["relative_rms"]:
        pytest.skip("rows of 64 values cannot hold blocks of 256")
    source = TINY if name == "muse-tiny" else WIDE
    path = source if kind == "Q4_K_M" else with_weights(source, tmp_path / "model.gguf", kind)
    sequences = [np.array(ids, np.int32) for ids in LLAMA_CPP["sequences"]]
    exact = [toy_reference.logits(path, ids) for ids in sequences]
    for kv_dtype, theirs in LLAMA_CPP["relative_rms"][f"{name} {kind}"].items():
        ours = pooled(
            [
                relative_rms(_muser.testing.forward_taps(str(path), ids, kv_dtype=kv_dtype, threads=1)[0], e)
                for ids, e in zip(sequences, exact, strict=True)
            ]
        )
        assert ours <= theirs * (1 + SCATTER.get((name, kind), 0.0)), kv_dtype
        if kv_dtype == "f32":
            assert ours <= CEILING.get(kind, 1.0)


def test_decode_after_prefill_continues_the_same_sequence(reference: dict[str, np.ndarray]) -> None:
    engine = open_engine(TINY)
    prefill(engine, reference["ids"][:40])
    for position in range(40, 48):
        assert worst(decode(engine, reference["ids"][position]), reference["logits"][position]) < TOLERANCE
