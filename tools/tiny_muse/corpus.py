"""Writes the corpus: documents, the tokenizer trained on them, and both together as token ids.

    python -m tools.tiny_muse.corpus --out W/data --documents 600000 --workers 16     # from the root

Same --seed and --documents, same bytes: documents come in shards of their own seeds, whatever the number of workers.
OUT/train.npy, val.npy: uint16, the id in the low 12 bits, bit 15 set where the model reads but does not learn.
*_starts.npy: where documents begin. prompts.json: held-out prompts. tokenizer.json, stats.json, sample.txt.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from ..tiny_tokenizer import N_CONTROL, build
from . import chats

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # workers are processes
VOCAB = 4096
READ_ONLY = 0x8000
SHARDS = 64
HELD_OUT = 987_654_321  # a seed no shard has
Segment = chats.Segment


def documents(seed: int, shard: int, n: int) -> list[list[Segment]]:
    rng = random.Random(f"{seed} {shard}")
    return [chats.document(rng) for _ in range(n)]


def held_out_prompts(n: int) -> list[str]:
    rng = random.Random(HELD_OUT)
    return [chats.prompt(rng) for _ in range(n)]


def digest(docs: list[list[Segment]]) -> str:
    h = hashlib.sha256()
    for doc in docs:
        for text, learn in doc:
            h.update(text.encode() + (b"+" if learn else b"-"))
    return h.hexdigest()


def training_text(docs: list[list[Segment]]) -> list[str]:
    """What the tokenizer is trained on: no control tokens, and no digits, so that each digit stays one token and
    numbers can be copied and added digit by digit."""
    return [re.sub(r"<\|[a-z_]+\|>|\d", " ", "".join(text for text, _ in doc)) for doc in docs]


def encode(job: tuple[int, int, int, str]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids and document starts of one shard."""
    from tokenizers import Tokenizer

    seed, shard, n, path = job
    tokenizer = Tokenizer.from_file(path)
    ids: list[np.ndarray] = []
    starts: list[int] = []
    at = 0
    docs = documents(seed, shard, n)
    for first in range(0, n, 500):
        some = docs[first : first + 500]
        encoded = iter(
            tokenizer.encode_batch_fast([t for doc in some for t, _ in doc], add_special_tokens=False)
        )
        for doc in some:
            starts.append(at)
            for _, learn in doc:
                row = np.array(next(encoded).ids, np.uint16)
                ids.append(row if learn else row | READ_ONLY)
                at += len(row)
    return np.concatenate(ids), np.array(starts, np.int64)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=600_000)
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    a = parser.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    began = time.time()
    per_shard = a.documents // SHARDS
    with ProcessPoolExecutor(a.workers) as pool:
        samples = list(pool.map(documents, [a.seed] * 16, range(16), [min(per_shard, 1500)] * 16))
        tokenizer = build(VOCAB, training_text([doc for shard in samples for doc in shard]))
        path = str(a.out / "tokenizer.json")
        tokenizer.save(path)
        print(f"{time.time() - began:.0f} s: tokenizer", flush=True)
        encoded = list(pool.map(encode, [(a.seed, shard, per_shard, path) for shard in range(SHARDS)]))
    offsets = np.cumsum([0, *(len(ids) for ids, _ in encoded)])
    ids = np.concatenate([ids for ids, _ in encoded])
    starts = np.concatenate([s + offset for (_, s), offset in zip(encoded, offsets, strict=False)])
    n_val = max(20, len(starts) // 200)
    cut = int(starts[-n_val])
    for name, array in (
        ("train", ids[:cut]), ("train_starts", starts[:-n_val]), ("val", ids[cut:]), ("val_starts", starts[-n_val:] - cut),
    ):  # fmt: skip
        np.save(a.out / f"{name}.npy", array)
    (a.out / "prompts.json").write_text(json.dumps(held_out_prompts(4000)))
    stats = {
        "documents": len(starts),
        "train_tokens": cut,
        "val_tokens": len(ids) - cut,
        "tokens_per_document": round(len(ids) / len(starts), 1),
        "learned_share": round(float((ids < READ_ONLY).mean()), 3),
        "seed": a.seed,
        "first_documents_sha256": digest(samples[0][:100]),
        "seconds": round(time.time() - began),
    }
    (a.out / "stats.json").write_text(json.dumps(stats, indent=1) + "\n")
    (a.out / "sample.txt").write_text("\n\n".join("".join(t for t, _ in doc) for doc in samples[0][:60]))
    print(json.dumps(stats), N_CONTROL, flush=True)


if __name__ == "__main__":
    main()
