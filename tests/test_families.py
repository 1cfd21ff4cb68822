"""Every family's graph against the numpy forward pass of toy_reference, switch by switch (toy.VARIANTS)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import toy_reference
from accuracy import relative_rms
from engines import DEVICE, open_engine, stepwise
from toy import ALL_TYPES, ARCHITECTURES, VARIANTS, write_toy
from variants import read, write

from muser import _muser

TOLERANCE = 5e-5  # float32 against float64: 7e-6 seen
LENGTH = 40  # two and a half windows
# An int8 activation has 127 steps; these random models carry its rounding through at this size at most.
QUANTIZED_ERROR = 0.03


# An epsilon that matters in every norm that reads it (and shows in the ones that must not).
LARGE_EPSILON = {f"{arch}-large-epsilon": (arch, {"eps": 0.05}) for arch in ARCHITECTURES}
CASES = VARIANTS | LARGE_EPSILON


@pytest.mark.parametrize("name", CASES)
def test_one_pass_and_token_by_token(name: str, tmp_path: Path) -> None:
    arch, overrides = CASES[name]
    path = tmp_path / "toy.gguf"
    write_toy(path, arch, seed=5, **overrides)
    ids = np.random.default_rng(5).integers(0, 256, LENGTH).astype(np.int32)
    logits, residuals = toy_reference.forward(path, ids)
    ours, our_residuals = _muser.testing.forward_taps(str(path), ids, kv_dtype="f32", threads=1, device=DEVICE)
    for layer, (actual, expected) in enumerate(zip(our_residuals, residuals, strict=True)):
        assert np.abs(actual - expected).max() < TOLERANCE, f"residual before layer {layer}"
    assert np.abs(ours - logits).max() < TOLERANCE
    assert np.abs(stepwise(open_engine(path), ids) - logits).max() < TOLERANCE


@pytest.mark.parametrize("arch", ["muse-glimmer", "gemma3"])
def test_post_norms_of_tiny_branches(arch: str, tmp_path: Path) -> None:
    """What a block adds is so small here that the epsilon of its post norm decides its size: 1e-8 in Muse
    Glimmer, the model's own in Gemma 3."""
    write_toy(tmp_path / "toy.gguf", arch, seed=7)
    metadata, tensors = read(tmp_path / "toy.gguf")
    for name, (data, kind) in tensors.items():
        if "attn_output" in name or "ffn_down" in name:
            tensors[name] = (data * np.float32(1e-3), kind)
    write(tmp_path / "tiny.gguf", metadata, tensors)
    ids = np.random.default_rng(7).integers(0, 256, LENGTH).astype(np.int32)
    logits, _ = _muser.testing.forward_taps(str(tmp_path / "tiny.gguf"), ids, kv_dtype="f32", threads=1, device=DEVICE)
    assert np.abs(logits - toy_reference.logits(tmp_path / "tiny.gguf", ids)).max() < TOLERANCE


@pytest.mark.parametrize("quant", ALL_TYPES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_weight_types(arch: str, quant: str, tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    write_toy(path, arch, quant=quant, seed=6)
    ids = np.random.default_rng(6).integers(0, 256, LENGTH).astype(np.int32)
    logits, _ = _muser.testing.forward_taps(str(path), ids, kv_dtype="f32", threads=1, device=DEVICE)
    error = relative_rms(logits, toy_reference.logits(path, ids))
    assert error < (1e-4 if quant in ("F32", "F16", "BF16") else QUANTIZED_ERROR)
