"""Writes tests/data/text/vocabulary_toy_sentencepiece.json: a small SentencePiece-like vocabulary of our own.

The pieces are those of the tiny Muse's byte-level vocabulary, spelled the SentencePiece way, best merge first, with
some made to be awkward: a user-defined run, a piece with a space inside, a repetition, equal scores.
"""

from __future__ import annotations

import json
from pathlib import Path

from muser.text import byte_level

DATA = Path(__file__).parent.parent / "tests" / "data" / "text"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
EXTRA = ["aa", "aaa", "aba", "ab", "ba", "é", "中", "\u2581\u2581", "a\u2581b", "\u2581b"]


def main() -> None:
    source = json.loads((DATA / "vocabulary_tiny_muse.json").read_text())
    entries = [("<unk>", UNKNOWN, 0.0), ("<s>", CONTROL, 0.0), ("</s>", CONTROL, 0.0)]
    entries += [(f"<0x{byte:02X}>", BYTE, 0.0) for byte in range(256)]
    entries += [("\n\n", USER_DEFINED, 0.0), ("<tag>", USER_DEFINED, 0.0), ("<tag></tag>", USER_DEFINED, 0.0)]
    known = {text for text, _, _ in entries}
    rank = 0
    for token, kind in zip(
        source["tokenizer.ggml.tokens"][:1400], source["tokenizer.ggml.token_type"], strict=False
    ):
        try:
            text = byte_level.to_bytes(token).decode().replace(" ", "\u2581")
        except UnicodeDecodeError:
            continue
        if kind == NORMAL and text not in known and text.isprintable():
            rank += 1
            known.add(text)
            entries.append((text, NORMAL, -float(rank // 2)))  # every score twice
    for text in EXTRA:
        if text not in known:
            entries.append((text, NORMAL, -7.0))
    vocabulary = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": [text for text, _, _ in entries],
        "tokenizer.ggml.token_type": [kind for _, kind, _ in entries],
        "tokenizer.ggml.scores": [score for _, _, score in entries],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": True,
    }
    path = DATA / "vocabulary_toy_sentencepiece.json"
    path.write_text(json.dumps(vocabulary, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
