"""What the types of keys and values cost: perplexity and logits error, the table of docs/accuracy.md.

    PYTHONPATH=src python -m tools.kv_accuracy [--models DIR] [--contexts 2]     from the root; needs muser alone

The tiny Muse over contexts of held-out documents (tools/tiny_muse/perplexity.py), SmolLM2 and Gemma 3 270M over
tests/data/perplexity.txt in one context. The logits' relative RMS error (tests/accuracy.py) and the share of rows whose
first choice differs are against float32 keys and values, the same tokens given to both.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import muser
from muser import hub
from tests.accuracy import log_likelihoods
from tools.tiny_muse.perplexity import contexts

KV_DTYPES = ("f32", "f16", "q8_0")
TEXT = Path(__file__).parent.parent / "tests" / "data" / "perplexity.txt"
Text = tuple[np.ndarray, np.ndarray]  # ids, and which of them count


@dataclass
class Sums:
    loss: float = 0.0
    counted: int = 0
    error: float = 0.0
    differs: float = 0.0


def measure(path: Path, texts: Iterable[Text]) -> dict[str, Sums]:
    sums = {kv: Sums() for kv in KV_DTYPES}
    expected_squares, rows = 0.0, 0
    with ExitStack() as stack:
        models = [
            stack.enter_context(muser.Model.load(path, device="cpu", kv_dtype=kv, slots=1, prefix_cache_bytes=0, context=2048))
            for kv in KV_DTYPES
        ]
        sessions = [stack.enter_context(model.session()) for model in models]
        for ids, counts in texts:
            for session in sessions:
                session.rewind(0)
                session.prefill(ids[:1].tolist())
            for token, count in zip(ids[1:].tolist(), counts[1:], strict=True):
                expected = np.array(sessions[0].logits, np.float64)
                expected_squares += float(np.square(expected).sum())
                rows += 1
                for kv, session in zip(KV_DTYPES, sessions, strict=True):
                    logits, sum_ = session.logits, sums[kv]
                    assert logits is not None
                    if count:
                        sum_.loss -= float(log_likelihoods(logits[None], [token])[0])
                        sum_.counted += 1
                    sum_.error += float(np.square(logits - expected).sum())
                    sum_.differs += float(logits.argmax() != expected.argmax())
                    session.decode(token)
    for sum_ in sums.values():
        sum_.error = (sum_.error / expected_squares) ** 0.5
        sum_.differs /= rows
    return sums


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, help="a folder with smollm2.gguf and gemma3-270m.gguf (default: downloaded)")
    parser.add_argument("--contexts", type=int, default=2, help="of the tiny Muse, 2,040 tokens each")
    a = parser.parse_args()
    print("| model | KV | perplexity | logits error | other first choice |\n| --- | --- | --- | --- | --- |")
    tiny = Path(muser.__file__).parent / "data" / "muse-tiny-Q4_K_M.gguf"
    for name in ("tiny Muse", "smollm2", "gemma3-270m"):
        if name == "tiny Muse":
            path, texts = tiny, contexts(a.contexts)
        else:
            path = a.models / f"{name}.gguf" if a.models else Path(hub.resolve(name))
            with muser.Model.load(path, device="cpu", slots=1, context=64) as model:
                ids = np.array(model.tokenize(TEXT.read_text(encoding="utf-8")), np.int32)
            texts = [(ids, np.ones(len(ids), bool))]
        for kv, found in measure(path, texts).items():
            perplexity = np.exp(found.loss / found.counted)
            print(f"| {name} | {kv} | {perplexity:.5f} | {found.error:.3%} | {found.differs:.2%} |", flush=True)


if __name__ == "__main__":
    main()
