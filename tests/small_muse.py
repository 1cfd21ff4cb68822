"""A stand-in for the model inside the package, for tests of everything above the engine on a slow device: its chat
template, context and window, and a fourth of its tokens, over two narrow layers of random weights. Its text is noise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
from toy import write_toy
from toy_vocab import CONTROL, Vocab

PIECES = 992  # the bytes and the first merges


def write_small_muse(path: Path, shipped: Path) -> None:
    read = gguf.GGUFReader(shipped)

    def key(name: str) -> Any:
        return read.fields[name].contents()

    t = "tokenizer.ggml."
    tokens, types = key(f"{t}tokens"), key(f"{t}token_type")
    kept = [i for i, kind in enumerate(types) if i < PIECES or kind == CONTROL]
    vocab = Vocab(key(f"{t}model"), key(f"{t}pre"), [tokens[i] for i in kept], [types[i] for i in kept])
    pieces = set(vocab.tokens)
    vocab.merges = [merge for merge in key(f"{t}merges") if {*merge.split(" "), merge.replace(" ", "")} <= pieces]
    vocab.ids = {role: kept.index(key(f"{t}{role}_token_id")) for role in ("bos", "eos", "eot", "padding")}
    write_toy(path, "muse-glimmer", "Q8_0", vocab=vocab, layers=2, pattern=[True, False], window=key("muse-glimmer.attention.sliding_window"),
              context=key("muse-glimmer.context_length"), chat_template=key("tokenizer.chat_template"))  # fmt: skip
