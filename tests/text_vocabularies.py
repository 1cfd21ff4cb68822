"""The vocabularies that the tokenizer tests use without a download (tests/data/text), and ways to change them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from muser.text import Tokenizer

DATA = Path(__file__).parent / "data" / "text"
KEY = "tokenizer.ggml."
PRE_TOKENIZERS = ("llama4", "gpt-4o", "llama-bpe", "qwen2", "smollm", "gpt-2", "default")


@cache
def _read(name: str) -> dict:
    return json.loads((DATA / f"vocabulary_{name}.json").read_text())


def metadata(name: str, **changes: object) -> dict:
    """The tokenizer metadata of ``name`` with keys changed; None takes a key away."""
    changed = _read(name) | {KEY + key: value for key, value in changes.items()}
    return {key: value for key, value in changed.items() if value is not None}


@cache
def tokenizer(name: str, pre: str | None = None) -> Tokenizer:
    """``random_muse`` (512 tokens), ``tiny_muse`` (4096) or ``toy_sentencepiece``."""
    return Tokenizer(metadata(name, pre=pre) if pre else metadata(name))


def small(tokens: list[str], types: list[int], **more: object) -> dict:
    """Metadata of a hand-written vocabulary."""
    keys = {"model": "gpt2", "pre": "gpt-2", "tokens": tokens, "token_type": types, "merges": [], **more}
    return {KEY + key: value for key, value in keys.items() if value is not None}
