"""Rounding error of muser and llama.cpp side by side, for every weight type: the table of docs/accuracy.md.

    python -m tools.compare_accuracy     from the root; needs muser, llama-cpp-python, torch, transformers

One random Muse Glimmer (d 256, 8 layers), quantized by llama.cpp to each type; relative RMS error of the
logits of 96 tokens against float32 transformers on the dequantized weights. float32 KV on both sides.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import muse_hf
from llama_cpp_engine import LlamaCpp, quantize, versions
from tiny_reference import random_model, write_gguf

from muser import _muser
from tests.accuracy import relative_rms

# file type of llama-quantize; "pure" ones have every matrix in that type
FILE_TYPES = (
    "F16",
    "BF16",
    "Q8_0",
    "Q5_1",
    "Q5_0",
    "Q4_1",
    "Q4_0",
    "IQ4_NL",
    "IQ4_XS",
    "Q6_K",
    "Q5_K_S",
    "Q4_K_S",
    "Q3_K_S",
    "Q2_K",
)
MIXED = ("Q5_K_M", "Q4_K_M", "Q3_K_M")


def main() -> None:
    ids = [480, *np.random.default_rng(11).integers(0, 480, 95).tolist()]
    model = random_model(
        d=256, ff=768, layers=8, heads=8, kv_heads=2, head_dim=64, vocab=512, window=16, context=256, qk=1.0
    )
    print("| weights | muser | llama.cpp | muser / llama.cpp |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        plain, path = Path(folder) / "f32.gguf", Path(folder) / "quantized.gguf"
        write_gguf(plain, model)
        for file_type in FILE_TYPES + MIXED:
            quantize(plain, path, file_type, pure=file_type not in MIXED)
            oracle, _ = muse_hf.forward(muse_hf.load_gguf(path), ids)
            ours, _ = _muser.testing.forward_taps(
                str(path), np.array(ids, np.int32), kv_dtype="f32", threads=1
            )
            with LlamaCpp(path, context=256, kv_dtype="f32") as other:
                theirs = other.all_logits(ids)
            a, b = relative_rms(ours, oracle), relative_rms(theirs, oracle)
            name = file_type + (" (mixed)" if file_type in MIXED else "")
            print(f"| {name} | {a:.3%} | {b:.3%} | {a / b:.2f} |", flush=True)
    print(versions())


if __name__ == "__main__":
    main()
