"""Small vocabularies for toy models: a byte-level BPE one and a SentencePiece-like one.

Both can encode any text. ``specials`` gives the control tokens of each family their usual names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # GGUF's token types

SPECIALS = {
    "muse-glimmer": {"bos": "<|begin_of_text|>", "eos": "<|end_of_text|>", "padding": "<|finetune_right_pad|>",
                     "eot": "<|eot|>", "": "<|eom|> <|start|> <|message|>"},
    "llama": {"bos": "<|begin_of_text|>", "eos": "<|end_of_text|>", "eot": "<|eot_id|>",
              "": "<|start_header_id|> <|end_header_id|>"},
    "qwen2": {"eos": "<|im_end|>", "padding": "<|endoftext|>", "": "<|im_start|>"},
    "qwen3": {"eos": "<|im_end|>", "padding": "<|endoftext|>", "": "<|im_start|>"},
    "gemma3": {"padding": "<pad>", "eos": "<eos>", "bos": "<bos>", "unknown": "<unk>", "eot": "<end_of_turn>",
               "": "<start_of_turn>"},
}  # fmt: skip
PRE = {"muse-glimmer": "llama4", "llama": "llama-bpe", "qwen2": "qwen2", "qwen3": "qwen2", "gemma3": "gpt-2"}

# Each is built from left to right out of its bytes, so that every merge has its two halves in the vocabulary.
MERGED = ["the", " the", "ing", "er", " a", "lo", "llo", "12", "\n\n", "  ", "é", "日", "日本", "😀"]
SIZE = 304


@dataclass
class Vocab:
    model: str  # "gpt2" or "llama", as in tokenizer.ggml.model
    pre: str
    tokens: list[str] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    ids: dict[str, int] = field(
        default_factory=dict
    )  # "bos" -> id, ... for the tokenizer.ggml.*_token_id keys

    def add(self, token: str, kind: int = NORMAL, score: float = 0.0) -> None:
        if token not in self.tokens:
            self.tokens.append(token)
            self.types.append(kind)
            self.scores.append(score)


def byte_alphabet() -> list[str]:
    """The printable character that stands for each byte in a byte-level BPE vocabulary."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in kept else chr(next(others)) for byte in range(256)]


def add_specials(vocab: Vocab, arch: str) -> None:
    for role, names in SPECIALS[arch].items():
        for name in names.split():
            vocab.add(name, UNKNOWN if role == "unknown" else CONTROL)
        if role:
            vocab.ids[role] = vocab.tokens.index(names)


def bpe_vocab(arch: str) -> Vocab:
    vocab = Vocab("gpt2", PRE[arch])
    alphabet = byte_alphabet()
    for character in sorted(alphabet):
        vocab.add(character)
    for text in MERGED:
        symbols = [alphabet[byte] for byte in text.encode()]
        left = symbols[0]
        for right in symbols[1:]:
            if f"{left} {right}" not in vocab.merges:
                vocab.merges.append(f"{left} {right}")
            left += right
            vocab.add(left)
    for i in range(SIZE):  # unreachable pieces, so that control ids do not depend on the length of MERGED
        if len(vocab.tokens) < SIZE - 16:
            vocab.add(f"\u0120zz{i}")
    add_specials(vocab, arch)
    for i in range(SIZE - len(vocab.tokens)):
        vocab.add(f"<|reserved_special_token_{i}|>", CONTROL)
    return vocab


def sentencepiece_vocab(arch: str) -> Vocab:
    """Controls first, then 256 byte pieces, then characters and words with falling scores, as SentencePiece has it."""
    vocab = Vocab("llama", "default")
    add_specials(vocab, arch)
    for byte in range(256):
        vocab.add(f"<0x{byte:02X}>", BYTE)
    pieces = [
        "\u2581the",
        "th",
        "he",
        "the",
        "in",
        "ing",
        "er",
        "\u2581a",
        "ll",
        "llo",
        "\u2581h",
        "\n\n",
        "\u2581\u2581",
    ]
    singles = ["\u2581", *"etaoinshrdluHw.,!1", "\n", "\u00e9", "\u65e5"]
    for rank, piece in enumerate(pieces + singles):
        vocab.add(piece, NORMAL, -float(rank))
    for i in range(SIZE - len(vocab.tokens)):
        vocab.add(f"<unused{i}>", CONTROL)
    return vocab
