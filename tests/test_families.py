"""Every family's graph against the numpy forward pass of toy_reference, switch by switch (toy.VARIANTS)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import toy_reference
from accuracy import relative_rms
from engines import open_engine, stepwise
from toy import ALL_TYPES, ARCHITECTURES, VARIANTS, write_toy

from muser import _muser

LENGTH = 40  # two and a half windows
# An int8 activation has 127 steps; these random models carry its rounding through at this size at most.
QUANTIZED_ERROR = 0.03


@pytest.mark.parametrize("name", VARIANTS)
def test_one_pass_and_token_by_token(name: str, tmp_path: Path) -> None:
    arch, overrides = VARIANTS[name]
    path = tmp_path / "toy.gguf"
    write_toy(path, arch, seed=5, **overrides)
    ids = np.random.default_rng(5).integers(0, 256, LENGTH).astype(np.int32)
    logits, residuals = toy_reference.forward(path, ids)
    ours, our_residuals = _muser.testing.forward_taps(str(path), ids, kv_dtype="f32", threads=1)
    for layer, (actual, expected) in enumerate(zip(our_residuals, residuals, strict=True)):
        assert np.abs(actual - expected).max() < 1e-4, f"residual before layer {layer}"
    assert np.abs(ours - logits).max() < 1e-4
    assert np.abs(stepwise(open_engine(path), ids) - logits).max() < 1e-4


@pytest.mark.parametrize("quant", ALL_TYPES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_weight_types(arch: str, quant: str, tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    write_toy(path, arch, quant=quant, seed=6)
    ids = np.random.default_rng(6).integers(0, 256, LENGTH).astype(np.int32)
    logits, _ = _muser.testing.forward_taps(str(path), ids, kv_dtype="f32", threads=1)
    error = relative_rms(logits, toy_reference.logits(path, ids))
    assert error < (1e-4 if quant in ("F32", "F16", "BF16") else QUANTIZED_ERROR)
