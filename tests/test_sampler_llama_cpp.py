"""The formulas are llama.cpp's: what its samplers leave of 104 rows, recorded by tools/record_llama_samplers.py, is what
ours leave, token for token, and the logits agree as far as its float32 goes. Where the rules differ on purpose, it says so.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sampler_oracle import F32, INF, Oracle

RECORDED = json.loads((Path(__file__).parent / "data" / "llama_cpp" / "samplers.json").read_text())


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: f"{case['row']}-{case['parameters']}")
def test_the_same_tokens_are_left_with_the_same_logits(case):
    row = np.array([-INF if x is None else x for x in RECORDED["rows"][case["row"]]], F32)
    oracle = Oracle(**case["parameters"], seed=1)
    oracle.accept(RECORDED["history"])
    oracle.sample(row)
    expected = {int(token): logit for token, logit in case["left"].items()}
    assert set(oracle.set) == set(expected)
    for token, logit in expected.items():
        assert float(oracle.set[token]) * float(oracle.scale) == pytest.approx(logit, rel=2e-5, abs=2e-5)
