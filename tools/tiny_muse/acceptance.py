"""How many tokens a verify gains with the files that ship, in float32: greedy, on held-out prompts.

    python -m tools.tiny_muse.acceptance --data W/data [--texts 24]      torch and gguf; slow on a CPU

Both files are dequantized, so this is what an engine without rounding of its own would see.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer

from .export import read_drafter, read_target
from .generate import generate
from .train_drafter import ROOM, Block, acceptance, encoded

PACKAGE = Path(__file__).parent.parent.parent / "src" / "muser" / "data"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--target", type=Path, default=PACKAGE / "muse-tiny-Q4_K_M.gguf")
    parser.add_argument("--drafter", type=Path, default=PACKAGE / "dflash-tiny-Q8_0.gguf")
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--length", type=int, default=400)
    a = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    target = read_target(a.target).to(device).requires_grad_(False)
    tokenizer = Tokenizer.from_file(str(a.data / "tokenizer.json"))
    prompts = json.loads((a.data / "prompts.json").read_text())
    held = encoded(tokenizer, prompts, a.length - ROOM)[512 : 512 + a.texts]  # not those of drafter.json
    ids, length = generate(target, held, a.length, 0.0)
    block = Block(target, read_drafter(a.drafter).to(device), a.length, device)
    block.half = torch.float32
    print(json.dumps(acceptance(block, ids, length, torch.tensor([len(p) for p in held], device=device))))


if __name__ == "__main__":
    main()
