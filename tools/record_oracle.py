"""Records what transformers gives for every file that the accuracy tests read.

    PYTHONPATH=src python -m tools.record_oracle [wide] [shipped] [f16 muse-tiny-F16.gguf]      from the root

wide: after tiny_reference.py made its files. shipped: the model in the package. f16: its master, for tests/golden.py.
Writes tests/data/*.npz and golden*.json. Quantized files are dequantized first, so a record is exact for
its file and the engine's own rounding is all that differs. Needs torch, transformers >= 5.15, gguf and muser.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
import muse_hf

import muser

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


def golden_prompts() -> list[tuple[str, list[int]]]:
    """Text and ids of 8 prompts whose answers are long: stories, a talk, sums with thought, a function call."""

    def says(text: str) -> dict[str, str]:
        return {"role": "user", "content": text}

    lily = says("Tell me a story about a girl named Lily who loses a kite.")
    chats: list[tuple[list, dict]] = [
        ([says("Tell me a story about a brave turtle.")], {}),
        ([says("Write a short talk between Mia and her grandma about the stars.")], {}),
        ([says("What is 47 plus 35?")], {"reasoning": "xhigh"}),
        ([{"role": "system", "content": "You are a friendly storyteller."}, lily], {}),
        ([says("Write a story about a fox who learns to swim.")], {"reasoning": "high"}),
        (
            [
                says("What does a cow say?"),
                {"role": "assistant", "content": "A cow says moo."},
                says("Tell me a story about a small bird."),
            ],
            {"reasoning": "low"},
        ),
        ([says("What is 127 times 34?")], {"tools": [CALCULATOR]}),
    ]
    with muser.Model.tiny(context=1024, slots=1) as model:
        prompts = [model.chat_prompt(messages, **options) for messages, options in chats]
        plain = "Once upon a time, there was a little dog named"
        texts = [(prompt.text, list(prompt.tokens)) for prompt in prompts]
        return [*texts, (plain, list(model.tokenize(plain)))]


CALCULATOR = {
    "name": "calculator.evaluate",
    "description": "Evaluates an arithmetic expression.",
    "parameters": {
        "type": "object",
        "properties": {"expression": {"type": "string"}},
        "required": ["expression"],
    },
}


def record_f16(path: Path) -> None:
    """Greedy ids of the float16 master, which is not in the repository."""
    model = muse_hf.load_gguf(path)
    prompts = []
    for text, prompt in golden_prompts():
        ids, _ = muse_hf.greedy(model, prompt, 48)
        prompts.append({"prompt": text, "prompt_ids": prompt, "greedy_ids": ids})
    note = "float32 in transformers on the weights of the float16 file; greedy does not stop"
    (DATA / "golden.json").write_text(json.dumps({"note": note, "prompts": prompts}, indent=1) + "\n")


def record_shipped() -> None:
    """Greedy ids, the runners-up and by how much they lost, and some logits of the model inside the
    package."""
    model = muse_hf.load_gguf(SHIPPED)
    prompts, kept, long_ids = [], [], []
    for text, prompt in golden_prompts():
        ids, logits = muse_hf.greedy(model, prompt, 48)
        second = np.argsort(logits, axis=1)[:, -2]
        steps = np.arange(len(ids))
        gaps = logits[steps, ids] - logits[steps, second]
        prompts.append(
            {
                "prompt": text,
                "prompt_ids": prompt,
                "greedy_ids": ids,
                "second_ids": second.tolist(),
                "gaps": [round(float(g), 5) for g in gaps],
            }
        )
        kept.append(logits[list(GOLDEN_STEPS)])
        long_ids += prompt + ids
    long_ids = long_ids[:640]
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


def main(arguments: list[str]) -> None:
    for command, argument in zip(arguments, [*arguments[1:], ""], strict=True):
        if command == "wide":
            record_wide_model()
        elif command == "shipped":
            record_shipped()
        elif command == "f16":
            record_f16(Path(argument))


if __name__ == "__main__":
    main(sys.argv[1:])
