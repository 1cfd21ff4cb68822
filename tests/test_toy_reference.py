"""The numpy reference forward, which is the oracle of muser's graph, against llama.cpp's logits for the same files.

The golden file is made by tools/make_toy_golden.py; nothing here needs llama.cpp.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy import ALL_TYPES, ARCHITECTURES, VARIANTS, write_toy
from toy_reference import forward, logits

GOLDEN = Path(__file__).parent / "data" / "toy_golden.npz"
IDS = np.random.default_rng(7).integers(0, 288, 44).tolist()  # more than two windows of 16
ROWS = [5, 17, 43]


def golden_variants() -> dict[str, tuple[str, dict[str, Any]]]:
    """Those that llama.cpp computes as we do: it ignores ``attention.scale`` in llama files."""
    return {name: variant for name, variant in VARIANTS.items() if "attention_scale" not in variant[1]}


@pytest.mark.parametrize("name", golden_variants())
def test_the_reference_equals_llama_cpp(tmp_path: Path, name: str) -> None:
    arch, overrides = VARIANTS[name]
    path = tmp_path / "toy.gguf"
    write_toy(path, arch, **overrides)
    with np.load(GOLDEN) as golden:
        digest = hashlib.sha256(path.read_bytes()).digest()
        assert digest == golden[f"{name}.sha256"].tobytes(), (
            "tests/toy.py changed: run tools/make_toy_golden.py"
        )
        expected = golden[name]
    got = logits(path, IDS)[ROWS]
    # llama.cpp takes gelu from a float16 table (relative error 5e-4); everything else is float32.
    tolerance = 5e-3 if arch == "gemma3" else 2e-5
    assert np.abs(got - expected).max() < tolerance


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_float32_arithmetic_stays_close_to_float64(tmp_path: Path, arch: str) -> None:
    path = tmp_path / "toy.gguf"
    write_toy(path, arch)
    wide, residuals = forward(path, IDS)
    narrow, _ = forward(path, IDS, np.float32)
    assert np.abs(wide - narrow).max() < 5e-5
    assert np.isfinite(residuals).all() and residuals.std() < 10


@pytest.mark.parametrize(
    ("arch", "quant"), [("qwen3", quant) for quant in ALL_TYPES] + [(arch, "Q4_K") for arch in ARCHITECTURES]
)
def test_toy_models_of_every_type_have_ordinary_logits(tmp_path: Path, arch: str, quant: str) -> None:
    path = tmp_path / "toy.gguf"
    write_toy(path, arch, quant)
    row = logits(path, IDS[:8])[-1]
    assert np.isfinite(row).all() and 0.3 < row.std() < 10


def test_the_same_arguments_give_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    first, second, other = (tmp_path / name for name in ("1", "2", "3"))
    write_toy(first, "qwen3", "Q5_K", seed=4)
    write_toy(second, "qwen3", "Q5_K", seed=4)
    write_toy(other, "qwen3", "Q5_K", seed=5)
    assert first.read_bytes() == second.read_bytes() != other.read_bytes()


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_toy(tmp_path / "t", "llama", windwo=3)
    with pytest.raises(ValueError, match="llamma"):
        write_toy(tmp_path / "t", "llamma")
    with pytest.raises(ValueError, match="Q9_K"):
        write_toy(tmp_path / "t", "llama", "Q9_K")
