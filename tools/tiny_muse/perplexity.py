"""Perplexity of files of the tiny model on held-out documents of the corpus, computed by muser.

    PYTHONPATH=src python -m tools.tiny_muse.perplexity W/muse-tiny-f32.gguf W/muse-tiny-Q4_K_M.gguf ...

Contexts of 2,040 tokens, each some documents in a row, as in training; counted are the tokens that the model is meant
to write. Prints a table with float32 and float16 keys and values, and the loss by position in the context.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import numpy as np

import muser

from . import chats
from .corpus import HELD_OUT

LENGTH = 2040  # the model's context, but for the token that a generation adds


def contexts(n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(ids [LENGTH], which of them are to be written) of documents that no shard of the corpus has."""
    rng = random.Random(f"perplexity {HELD_OUT}")
    out = []
    with muser.Model.tiny(context=64, slots=1) as model:
        for _ in range(n):
            ids: list[int] = []
            learn: list[bool] = []
            while len(ids) < LENGTH:
                for text, learned in chats.document(rng):
                    some = model.tokenize(text, add_bos=False, parse_special=True)
                    ids += some
                    learn += [learned] * len(some)
            out.append((np.array(ids[:LENGTH], np.int32), np.array(learn[:LENGTH])))
    return out


def losses(path: Path, kv_dtype: str, texts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Natural logarithm, [contexts, LENGTH - 1]; NaN where nothing is to be written."""
    rows = []
    with muser.Model.load(path, kv_dtype=kv_dtype, context=LENGTH + 8, slots=1) as model:
        for ids, learn in texts:
            done = model.generate(ids.tolist(), max_tokens=1, echo=True, logprobs=True, temperature=0)
            assert done.logprobs is not None
            loss = np.array([-(entry.logprob or 0.0) for entry in done.logprobs[1:LENGTH]])
            rows.append(np.where(learn[1:], loss, np.nan))
    return np.stack(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--contexts", type=int, default=12)
    a = parser.parse_args()
    texts = contexts(a.contexts)
    print("| file | size | f32 KV | f16 KV |\n| --- | --- | --- | --- |")
    by_position = None
    for path in a.files:
        found = {kv: losses(path, kv, texts) for kv in ("f32", "f16")}
        by_position = found["f16"]
        both = " | ".join(f"{np.exp(np.nanmean(loss)):.5f}" for loss in found.values())
        print(f"| {path.name} | {path.stat().st_size / 1e6:.1f} MB | {both} |", flush=True)
    assert by_position is not None
    print(f"\n{int(np.isfinite(by_position).sum())} tokens. Loss by position, the last file, f16 KV:")
    for first in range(0, LENGTH, 256):
        print(f"{first:5}..{first + 255}: {np.nanmean(by_position[:, first : first + 256]):.4f}")


if __name__ == "__main__":
    main()
