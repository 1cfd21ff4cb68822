"""A stand-in for the model inside the package, for tests of everything above the engine on a slow device: its
tokenizer, chat template, context and window over two narrow layers of random weights. Its text is noise.
"""

from __future__ import annotations

from pathlib import Path

import gguf
from toy import write_toy
from toy_vocab import Vocab


def write_small_muse(path: Path, shipped: Path) -> None:
    read = gguf.GGUFReader(shipped)

    def key(name: str):
        return read.fields[name].contents()

    t = "tokenizer.ggml."
    ids = {role: key(f"{t}{role}_token_id") for role in ("bos", "eos", "eot", "padding")}
    vocab = Vocab(key(f"{t}model"), key(f"{t}pre"), key(f"{t}tokens"), key(f"{t}token_type"), key(f"{t}merges"), ids=ids)
    write_toy(path, "muse-glimmer", "Q8_0", vocab=vocab, layers=2, pattern=[True, False], window=key("muse-glimmer.attention.sliding_window"),
              context=key("muse-glimmer.context_length"), chat_template=key("tokenizer.chat_template"))  # fmt: skip
