"""The model inside the package: what it writes and how exactly, against float32 transformers on its
dequantized weights."""

from __future__ import annotations

import json

import numpy as np
import pytest
from accuracy import relative_rms
from engines import DATA, DEVICE, SHIPPED, decode, greedy, open_engine, prefill

from muser import _muser

RECORD = json.loads((DATA / "golden_q4_k_m.json").read_text())
LLAMA_CPP = json.loads((DATA / "llama_cpp" / "tiny.json").read_text())["shipped"]
STOP = (4065, 4072)  # end of text, end of turn


@pytest.fixture(scope="module")
def oracle() -> dict[str, np.ndarray]:
    return dict(np.load(DATA / "golden_q4_k_m.npz"))


@pytest.mark.parametrize("kv_dtype", ["f32", "f16"])
def test_logits_around_the_window_are_as_accurate_as_llama_cpp(
    oracle: dict[str, np.ndarray], kv_dtype: str
) -> None:
    logits, _ = _muser.testing.forward_taps(str(SHIPPED), oracle["long_ids"], kv_dtype=kv_dtype, threads=1)
    error = relative_rms(logits[oracle["long_positions"]], oracle["long_logits"])
    assert error <= LLAMA_CPP[kv_dtype]["relative_rms"]


def test_golden_ids_and_their_leads(oracle: dict[str, np.ndarray]) -> None:
    """At every step of the 8 golden texts the oracle's choice is ours, unless it leads the runner-up by
    less than the noise.

    The noise is measured here: the largest error of such a lead. It must not exceed llama.cpp's on the same
    steps.
    """
    noise = LLAMA_CPP["f16"]["gap_noise"]
    errors, compared, total = [], 0, 0
    for index, entry in enumerate(RECORD["prompts"]):
        engine = open_engine(SHIPPED, kv_dtype="f16")
        logits, kept = prefill(engine, entry["prompt_ids"]), iter(oracle["logits"][index])
        for step, (token, second, lead) in enumerate(
            zip(entry["greedy_ids"], entry["second_ids"], entry["gaps"], strict=True)
        ):
            if step in RECORD["steps"]:
                assert relative_rms(logits, next(kept)) < 0.03, (index, step)
            errors.append(float(logits[token] - logits[second]) - lead)
            if lead > noise["max"]:
                compared += 1
                assert int(logits.argmax()) == token, (index, step, lead)
            total += 1
            logits = decode(engine, token)
    assert max(map(abs, errors)) <= noise["max"]
    assert np.sqrt(np.square(errors).mean()) <= noise["rms"]
    assert compared > 0.8 * total, "too many near-ties for the test to mean much"


def test_it_tells_a_story_that_ends() -> None:
    ids = greedy(open_engine(SHIPPED, kv_dtype="f16"), RECORD["prompts"][0]["prompt_ids"], 400, stop=STOP)
    assert ids[-1] in STOP and 100 < len(ids) < 400


# Of a prompt, how many tokens; the relative RMS error of a row; a lead that no error may take away. Metal computes in
# float32 all through and its simulator is slow, the CPU rounds activations to 8 bits.
GOLDEN = {"cpu": (48, 0.03, LLAMA_CPP["f16"]["gap_noise"]["max"]), "metal": (24, 1e-3, 1e-3)}


@pytest.mark.parametrize("first", [0, 4])
def test_four_golden_texts_at_once(oracle: dict[str, np.ndarray], first: int) -> None:
    """In groups of four rows, on every device."""
    length, error, lead_that_counts = GOLDEN[DEVICE]
    engine = open_engine(SHIPPED, slots=4, context=256, kv_dtype="f32")
    entries = RECORD["prompts"][first : first + 4]
    for slot, entry in enumerate(entries):
        prefill(engine, entry["prompt_ids"], slot=slot)
    for step in range(length):
        for slot, entry in enumerate(entries):
            logits, token, lead = engine.logits(slot), entry["greedy_ids"][step], entry["gaps"][step]
            if step in RECORD["steps"]:
                expected = oracle["logits"][first + slot, RECORD["steps"].index(step)]
                assert relative_rms(logits, expected) < error, (slot, step)
            assert int(logits.argmax()) == token or lead <= lead_that_counts, (slot, step, lead)
            assert abs(float(logits[token] - logits[entry["second_ids"][step]]) - lead) <= lead_that_counts, (slot, step)
        engine.decode_group(range(4), [entry["greedy_ids"][step] for entry in entries], 60.0)
