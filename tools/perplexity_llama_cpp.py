"""The perplexity of texts beside llama.cpp's on the same file, one line a text, and of all together.

    PYTHONPATH=src python -m tools.perplexity_llama_cpp MODEL.gguf TEXT [TEXT ...]     from the root; needs llama-cpp-python

Of each text the first 4,000 characters, in one context of their own; the first token does not count. llama.cpp takes a
text as one batch, muser token by token. One text alone says little: both round, and they err apart (docs/accuracy.md).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import muser
from tests.accuracy import log_likelihoods
from tools.llama_cpp_engine import LlamaCpp

CHARACTERS = 4000
CONTEXT = 2048  # tokens


def losses(session: muser.Session, peer: LlamaCpp, text: str) -> tuple[int, float, float]:
    """Counted tokens, and the sum of -ln p over them: muser's and llama.cpp's."""
    ids = peer.tokenize(text)[:CONTEXT]
    theirs = -float(log_likelihoods(peer.all_logits(ids)[:-1], ids[1:]).sum())
    session.rewind(0)
    session.prefill(ids[:1])
    ours = 0.0
    for token in ids[1:]:
        logits = session.logits
        assert logits is not None
        ours -= float(log_likelihoods(logits[None], [token])[0])
        session.decode(token)
    return len(ids) - 1, ours, theirs


def line(name: str, n: int, ours: float, theirs: float) -> str:
    return f"| {name} | {n:,} | {math.exp(ours / n):.3f} | {math.exp(theirs / n):.3f} | {math.expm1((ours - theirs) / n):+.2%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    a = parser.parse_args()
    print("| text | tokens | muser | llama.cpp | muser's |\n| --- | --- | --- | --- | --- |")
    n, ours, theirs = 0, 0.0, 0.0
    model = muser.Model.load(a.model, device="cpu", slots=1, context=CONTEXT)
    with LlamaCpp(a.model, context=CONTEXT) as peer, model, model.session() as session:
        for path in a.texts:
            found = losses(session, peer, path.read_text()[:CHARACTERS])
            print(line(path.name, *found), flush=True)
            n, ours, theirs = n + found[0], ours + found[1], theirs + found[2]
    print(line("together", n, ours, theirs))


if __name__ == "__main__":
    main()
