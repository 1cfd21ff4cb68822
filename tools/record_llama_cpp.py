"""Records what llama.cpp gives, so that tests can compare without it: tests/data/llama_cpp/*.json.

    python -m tools.record_llama_cpp tiny                      # its rounding error on the files of tests/data
    python -m tools.record_llama_cpp shipped                   # only the model in the package
    python -m tools.record_llama_cpp real smollm2 MODEL.gguf   # greedy ids and perplexity of a real model

Both measure the distance to float32 transformers on the same dequantized weights. Needs llama-cpp-python,
torch, transformers. Rerun it when llama-cpp-python changes; the version and the CPU stand in every file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tests")]
import toy_reference
from llama_cpp_engine import LlamaCpp, versions
from llama_cpp_prompts import prompts

from tests.accuracy import log_likelihoods, pooled, relative_rms
from tests.variants import with_weights

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
SHIPPED = ROOT / "src" / "muser" / "data" / "muse-tiny-Q4_K_M.gguf"
SEQUENCES, LENGTH = 16, 96
NEW_TOKENS = 64


def save(name: str, record: dict) -> None:
    (DATA / "llama_cpp" / f"{name}.json").write_text(json.dumps({"versions": versions(), **record}) + "\n")


def errors(path: Path, sequences: list[list[int]]) -> dict[str, list[float]]:
    """Relative RMS error of each sequence with either KV type, against tests/toy_reference.py."""
    exact = [toy_reference.logits(path, ids) for ids in sequences]
    out = {}
    for kv_dtype in ("f32", "f16"):
        with LlamaCpp(path, context=256, kv_dtype=kv_dtype) as model:
            out[kv_dtype] = [
                round(relative_rms(model.all_logits(ids), e), 6)
                for ids, e in zip(sequences, exact, strict=True)
            ]
    return out


def record_tiny() -> None:
    rng = np.random.default_rng(13)
    sequences = [[480, *rng.integers(0, 480, LENGTH - 1).tolist()] for _ in range(SEQUENCES)]
    small, wide = DATA / "muse-tiny-f32.gguf", DATA / "muse-256-q4_k_m.gguf"
    record = {"muse-256 Q4_K_M": errors(wide, sequences)}
    with tempfile.TemporaryDirectory() as folder:
        for name, source in (("muse-tiny", small), ("muse-256", wide)):
            for kind in ("F16", "BF16", "Q8_0"):
                path = with_weights(source, Path(folder) / f"{kind}.gguf", kind)
                record[f"{name} {kind}"] = errors(path, sequences)
    shipped = shipped_record()
    save("tiny", {"sequences": sequences, "relative_rms": record, "shipped": shipped})
    pools = {name: {kv: round(pooled(e), 6) for kv, e in both.items()} for name, both in record.items()}
    print(json.dumps({**pools, "shipped": shipped}, indent=1))


def shipped_record() -> dict:
    out = {}
    for kv_dtype in ("f32", "f16"):
        with LlamaCpp(SHIPPED, context=1024, kv_dtype=kv_dtype) as model:
            out[kv_dtype] = {"relative_rms": shipped_error(model), "gap_noise": shipped_gap_noise(model)}
    return out


def record_shipped() -> None:
    """The part of tiny.json that changes with the model in the package."""
    record = json.loads((DATA / "llama_cpp" / "tiny.json").read_text()) | {"shipped": shipped_record()}
    del record["versions"]
    save("tiny", record)
    print(json.dumps(record["shipped"], indent=1))


def shipped_error(model: LlamaCpp) -> float:
    oracle = np.load(DATA / "golden_q4_k_m.npz")
    rows = model.all_logits(oracle["long_ids"].tolist())[oracle["long_positions"]]
    return round(relative_rms(rows, oracle["long_logits"]), 6)


def shipped_gap_noise(model: LlamaCpp) -> dict[str, float]:
    """Error of the lead of each golden id over its runner-up (golden_q4_k_m.json)."""
    noise: list[float] = []
    for entry in json.loads((DATA / "golden_q4_k_m.json").read_text())["prompts"]:
        ids = entry["greedy_ids"]
        rows = model.all_logits(entry["prompt_ids"] + ids[:-1])[len(entry["prompt_ids"]) - 1 :]
        steps = np.arange(len(ids))
        noise += np.abs(rows[steps, ids] - rows[steps, entry["second_ids"]] - entry["gaps"]).tolist()
    return {"max": round(max(noise), 5), "rms": round(float(np.sqrt(np.square(noise).mean())), 5)}


def record_greedy(model: LlamaCpp, oracle, text: str, chat: bool) -> dict:
    """llama.cpp's greedy ids after a prompt. At each step: the runner-up, by how much the winner leads it,
    and by how much the float32 oracle says that it should."""
    ids = model.tokenize(text, parse_special=chat)
    model.clear()
    model.run([(0, token, p) for p, token in enumerate(ids)])
    greedy, second, gaps = [], [], []
    for step in range(NEW_TOKENS):
        logits = model.logits(-1)
        best, next_best = np.argsort(logits)[::-1][:2]
        greedy.append(int(best))
        second.append(int(next_best))
        gaps.append(round(float(logits[best] - logits[next_best]), 4))
        model.run([(0, int(best), len(ids) + step)])
    exact = oracle.logits(ids + greedy[:-1], first=len(ids) - 1)
    steps = np.arange(NEW_TOKENS)
    exact_gaps = [round(float(g), 4) for g in exact[steps, greedy] - exact[steps, second]]
    return {
        "text": text,
        "ids": ids,
        "greedy": greedy,
        "second": second,
        "gaps": gaps,
        "exact_gaps": exact_gaps,
        "exact_argmax_differs": int((exact.argmax(1) != greedy).sum()),
    }


def perplexity(logits: np.ndarray, ids: list[int]) -> float:
    """Of every token but the first, in one context; natural logarithm."""
    return round(float(np.exp(-log_likelihoods(logits[:-1], ids[1:]).mean())), 5)


def record_perplexity(path: Path, oracle) -> dict:
    """llama.cpp on the file, in one batch and token by token; llama.cpp on a float32 copy of the same weights, where
    no activation is rounded; and transformers on them."""
    text = (DATA / "perplexity.txt").read_text()
    with LlamaCpp(path, context=2048) as model:
        ids = model.tokenize(text)
        batch, stepwise = model.all_logits(ids), model.stepwise_logits(ids)
    with (
        tempfile.TemporaryDirectory() as folder,
        LlamaCpp(with_weights(path, Path(folder) / "f32.gguf", "F32"), context=2048) as plain,
    ):
        float32 = plain.all_logits(ids)
    runs = {"batch": batch, "stepwise": stepwise, "float32": float32, "exact": oracle.logits(ids)}
    return {"ids": ids, **{name: perplexity(logits, ids) for name, logits in runs.items()}}


def record_real(name: str, path: Path) -> None:
    import torch
    from real_oracle import RealOracle

    torch.set_num_threads(1)
    oracle = RealOracle(path)
    chat = name == "smollm2"
    with LlamaCpp(path, context=2048) as model:
        greedy = [record_greedy(model, oracle, text, chat) for text in prompts(chat)]
    figures = record_perplexity(path, oracle)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    save(
        name,
        {
            "file": path.name,
            "bytes": path.stat().st_size,
            "sha256": digest,
            "perplexity": figures,
            "prompts": greedy,
        },
    )
    noise = np.concatenate([np.subtract(p["gaps"], p["exact_gaps"]) for p in greedy])
    print(name, {k: v for k, v in figures.items() if k != "ids"}, len(figures["ids"]), "tokens")
    print("lead noise: max", np.abs(noise).max(), "rms", np.sqrt(np.square(noise).mean()))
    print(
        "the float32 oracle prefers another token at", sum(p["exact_argmax_differs"] for p in greedy), "steps"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tiny")
    commands.add_parser("shipped")
    real = commands.add_parser("real")
    real.add_argument("name", choices=("smollm2", "gemma3-270m"))
    real.add_argument("path", type=Path)
    a = parser.parse_args()
    if a.command == "tiny":
        record_tiny()
    elif a.command == "shipped":
        record_shipped()
    else:
        record_real(a.name, a.path)


if __name__ == "__main__":
    main()
