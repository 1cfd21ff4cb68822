"""Records what transformers gives for every file that the accuracy tests read.

    python -m tools.record_oracle        from the root, after tiny_reference.py made the files

Writes tests/data/*.npz and golden_q4_k_m.json. Quantized files are dequantized first, so a record is exact for
its file and the engine's own rounding is all that differs. Needs torch, transformers >= 5.15 and gguf.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
import muse_hf

torch.set_num_threads(1)
ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
SHIPPED = ROOT / "src" / "muser" / "data" / "muse-tiny-Q4_K_M.gguf"
GOLDEN_STEPS = (0, 23, 47)  # whose logits are kept whole
LONG_POSITIONS = (0, 1, 254, 255, 256, 257, 511, 512, 513, -1)  # around the trained model's window of 256
# Around the wide random model's window of 16 and its ring of 16 + 512 rows.
RING_POSITIONS = (0, 14, 15, 16, 17, 47, 95, 255, 511, 512, 513, 526, 527, 528, 529, 543, 544, 545, 599, 639)


def record_wide_model() -> None:
    """Positions past the ring of the wide model: its scores stay within +-11, where the small one (+-43) would
    amplify the float32 rounding of a rope angle beyond 1e-4."""
    ids = [480, *np.random.default_rng(11).integers(0, 480, 639).tolist()]
    logits, _ = muse_hf.forward(muse_hf.load_gguf(DATA / "muse-256-q4_k_m.gguf"), ids)
    positions = np.array(RING_POSITIONS, np.int32)
    np.savez_compressed(
        DATA / "muse-256.npz", ids=np.array(ids, np.int32), positions=positions, logits=logits[positions]
    )


def record_shipped() -> None:
    """Greedy ids, the runners-up and by how much they lost, and some logits of the model inside the
    package, for the prompts of golden.json."""
    model = muse_hf.load_gguf(SHIPPED)
    prompts, kept, long_ids = [], [], []
    for entry in json.loads((DATA / "golden.json").read_text())["prompts"]:
        ids, logits = muse_hf.greedy(model, entry["prompt_ids"], 48)
        second = np.argsort(logits, axis=1)[:, -2]
        steps = np.arange(len(ids))
        gaps = logits[steps, ids] - logits[steps, second]
        prompts.append(
            {
                "prompt": entry["prompt"],
                "prompt_ids": entry["prompt_ids"],
                "greedy_ids": ids,
                "second_ids": second.tolist(),
                "gaps": [round(float(g), 5) for g in gaps],
            }
        )
        kept.append(logits[list(GOLDEN_STEPS)])
        long_ids += entry["prompt_ids"] + ids
    long_logits, _ = muse_hf.forward(model, long_ids)
    (DATA / "golden_q4_k_m.json").write_text(
        json.dumps(
            {
                "note": "float32 in transformers on the dequantized weights; greedy does not stop",
                "steps": GOLDEN_STEPS,
                "prompts": prompts,
            },
            indent=1,
        )
        + "\n"
    )
    positions = np.array(LONG_POSITIONS, np.int32) % len(long_ids)
    np.savez_compressed(
        DATA / "golden_q4_k_m.npz",
        logits=np.stack(kept),
        long_ids=np.array(long_ids, np.int32),
        long_positions=positions,
        long_logits=long_logits[positions],
    )


if __name__ == "__main__":
    record_wide_model()
    record_shipped()
