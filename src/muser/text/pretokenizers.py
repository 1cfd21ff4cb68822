"""How byte-level vocabularies cut text into words before merging: one regex, or several in a row.

A GGUF names its pre-tokenizer (``tokenizer.ggml.pre``); the patterns are those that the model's publisher uses, in
the syntax of Oniguruma, which the ``tokenizers`` library runs. Several patterns apply one after another: each cuts
the pieces that the one before left, and both its matches and the gaps between them are pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"

# OpenAI, gpt-2/src/encoder.py, `self.pat`.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# Meta, llama3/llama/tokenizer.py, `pat_str`. {1,3} digits a piece.
_LLAMA3 = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# Qwen2, tokenizer.json, pre_tokenizer. As Llama 3, with one digit a piece.
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

# OpenAI, tiktoken/tiktoken_ext/openai_public.py, `o200k_base`; the same in Llama 4's and Muse Glimmer's tokenizer.json.
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_O200K = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


@dataclass(frozen=True)
class PreTokenizer:
    """``ignore_merges``: a word that is itself in the vocabulary is one token, whatever the merges would give.
    ``add_bos``: what a file means that does not say ``add_bos_token``."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False


_LLAMA_BPE = PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True)
_GPT_4O = PreTokenizer((_O200K,))
_QWEN = PreTokenizer((_QWEN2,))

_BY_NAME = {
    "gpt-4o": _GPT_4O,
    "llama4": _GPT_4O,
    "llama-bpe": _LLAMA_BPE,
    "llama3": _LLAMA_BPE,
    "llama-v3": _LLAMA_BPE,
    "qwen2": _QWEN,
    "deepseek-r1-qwen": _QWEN,
    "gpt-2": PreTokenizer((_GPT2,)),
    # HuggingFaceTB/SmolLM2, tokenizer.json: Digits(individual_digits), then ByteLevel(use_regex), which is GPT-2's.
    "smollm": PreTokenizer((r"\p{N}", _GPT2)),
    # llama.cpp's own choice for files that name none (src/llama-vocab.cpp); no publisher's tokenizer is known by it.
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
}


def find(name: str) -> PreTokenizer | None:
    return _BY_NAME.get(name)
