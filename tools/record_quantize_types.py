"""Records which type llama-quantize gives every matrix of some models: tests/data/llama_cpp/quantize_types.json.

    python -m tools.shape_model small-llama llama-256.gguf --mix F16 --set layers=20 d_model=256 d_ff=512 heads=8 kv_heads=2 head_dim=32
    python -m tools.record_quantize_types smollm2=SMOLLM2.gguf gemma3-270m=GEMMA.gguf llama-256=llama-256.gguf ...

llama-80 has layers=80 d_ff=256 kv_heads=4; muse-256 is small-muse-glimmer with layers=13; qwen2-256 is small-qwen2 with layers=17
heads=4 kv_heads=4 head_dim=64. The rules read no weights: a copy with zeros for weights (the file cut after its header and
made as long again) gives the same types in a tenth of the time. Only names, shapes and the keys that the rules read are kept, so that
the test needs no model. Needs llama-cpp-python.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]
from llama_cpp_engine import quantize, versions

from muser._muser import GgufFile

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "tests" / "data" / "llama_cpp" / "quantize_types.json"
MIXES = ("Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "Q4_0", "Q4_K_S", "Q4_K_M", "Q4_1", "Q5_0", "Q5_K_S", "Q5_K_M", "Q5_1",
         "Q6_K", "Q8_0", "F16", "BF16")  # fmt: skip
KEYS = ("block_count", "attention.head_count", "attention.head_count_kv")


def matrices(path: Path) -> dict[str, tuple[list[int], str]]:
    """Name -> (shape with the contiguous dimension first, type)."""
    tensors = GgufFile(path).tensors()
    return {name: (list(shape), kind) for name, kind, shape, _, _ in tensors if len(shape) > 1}


def record(path: Path) -> dict:
    file = GgufFile(path)
    arch = file.get("general.architecture")
    found = {
        "architecture": arch,
        "keys": {key: file.get(f"{arch}.{key}") for key in KEYS},
        "shapes": {name: shape for name, (shape, _) in matrices(path).items()},
        "types": {},
    }
    for mix in MIXES:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "out.gguf"
            quantize(path, target, mix, requantize=True)
            types = matrices(target)
            found["types"][mix] = " ".join(types[name][1] for name in found["shapes"])
        print(path.name, mix, file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    models = {name: record(Path(path)) for name, path in (pair.split("=", 1) for pair in sys.argv[1:])}
    RECORD.write_text(json.dumps({"versions": versions(), "models": models}) + "\n")
