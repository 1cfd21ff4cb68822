"""A byte-level BPE tokenizer of a few hundred pieces with the published split pattern and control tokens of
Muse Glimmer, and its GGUF form. Called by tiny_reference.py and tiny_muse/."""

from __future__ import annotations

import json
from collections.abc import Sequence

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

# The split of the published tokenizer.json (the Llama 4 / o200k family).
SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
N_CONTROL = 32  # 2048 in the real vocabulary
# Name by distance from the first control id, as in the real file.
CONTROL = {
    0: "<|begin_of_text|>",
    1: "<|end_of_text|>",
    7: "<|eom|>",
    8: "<|eot|>",
    18: "<|finetune_right_pad|>",
    22: "<|start|>",
    23: "<|message|>",
}
TEXT = (
    "the quick brown fox jumps over the lazy dog. system user assistant tool to=self to=user "
    "You are a helpful AI assistant. Reasoning strength: high. Valid recipients. Hello world! 1234567 "
    "def main(): return 0\n\n    print('it''s HelloWORLD')\n"
) * 20


def build(vocab: int, texts: Sequence[str] = (TEXT,)) -> Tokenizer:
    """`vocab` ids: the pieces learned from the texts, unreachable padding pieces, then N_CONTROL control tokens."""
    n_normal = vocab - N_CONTROL
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=n_normal,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    spec = json.loads(tokenizer.to_str())
    for i in range(tokenizer.get_vocab_size(), n_normal):
        spec["model"]["vocab"][f"\u0120zz{i}"] = i
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    names = [CONTROL.get(i, f"<|reserved_special_token_{i}|>") for i in range(N_CONTROL)]
    tokenizer.add_special_tokens([AddedToken(n, special=True, normalized=False) for n in names])
    return tokenizer


def add_to_gguf(writer: gguf.GGUFWriter, tokenizer: Tokenizer, n_normal: int) -> None:
    vocab = sorted(tokenizer.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1])
    normal, control = int(gguf.TokenType.NORMAL), int(gguf.TokenType.CONTROL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama4")
    writer.add_token_list([piece for piece, _ in vocab])
    writer.add_token_types([normal if i < n_normal else control for _, i in vocab])
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    writer.add_bos_token_id(n_normal)
    writer.add_eos_token_id(n_normal + 1)
    writer.add_pad_token_id(n_normal + 18)
    writer.add_add_bos_token(True)
    writer.add_bool("tokenizer.ggml.add_sep_token", False)
    writer.add_eot_token_id(n_normal + 8)
