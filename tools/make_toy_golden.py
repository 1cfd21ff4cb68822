"""Writes tests/data/toy_golden.npz: logits that llama.cpp gives for the toy models (tests/toy.py).

They keep tests/toy_reference.py honest, which is the oracle of muser's graph. Needs llama-cpp-python (0.3.35 or
later, for muse-glimmer), which nothing else in the project does:

    python tools/make_toy_golden.py
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from test_toy_reference import GOLDEN, IDS, ROWS, golden_variants
from toy import write_toy


def llama_cpp_logits(path: Path) -> np.ndarray:
    """[rows, vocab], float32 KV, one pass."""
    model = llama_cpp.Llama(
        str(path), n_ctx=256, n_batch=64, n_ubatch=64, logits_all=True, type_k=0, type_v=0, swa_full=True,
        flash_attn=False, verbose=False,
    )  # fmt: skip
    model.eval(IDS)
    return np.array(model.scores[ROWS], np.float32)


def main() -> None:
    arrays: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "toy.gguf"
        for name, (arch, overrides) in golden_variants().items():
            write_toy(path, arch, **overrides)
            arrays[name] = llama_cpp_logits(path)
            digest = hashlib.sha256(path.read_bytes()).digest()
            arrays[f"{name}.sha256"] = np.frombuffer(digest, np.uint8)
    np.savez_compressed(GOLDEN, **arrays)


if __name__ == "__main__":
    main()
