"""Byte-level BPE (``tokenizer.ggml.model`` = ``gpt2``) on the ``tokenizers`` library.

Only tokens that text may become are given to the library, so no merge can end in a control token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._checks import shown
from ..errors import ParameterError
from . import byte_level
from .chunks import chunks
from .metadata import PREFIX
from .pretokenizers import PreTokenizer
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    import tokenizers
    from tokenizers import pre_tokenizers


class BpeEncoder:
    """Immutable after it is built; any number of threads may encode at once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        control = vocabulary.control
        pieces = {text: token for text, token in vocabulary.ids.items() if token not in control}
        self._library = _build(vocabulary, pieces)
        self._missing = bytes(
            byte
            for byte, character in enumerate(byte_level.CHARACTERS)
            if character not in pieces and byte not in byte_level.NEVER_IN_UTF8
        )

    def encode(self, text: str) -> list[int]:
        """Ids of a text without special tokens. ``text`` must be encodable as UTF-8."""
        if self._missing:
            self._refuse_missing(text)
        ids: list[int] = []
        for chunk in chunks(text):
            ids += self._library.encode(chunk, add_special_tokens=False).ids
        return ids

    def _refuse_missing(self, text: str) -> None:
        """Small vocabularies lack bytes; the library would drop them without a word."""
        data = text.encode()
        if len(data.translate(None, self._missing)) == len(data):
            return
        for index, character in enumerate(text):
            if any(byte in self._missing for byte in character.encode()):
                raise ParameterError(
                    f"text[{index}] is {character!r}, which this model's vocabulary cannot spell",
                    parameter="text",
                    value=character,
                )


def _build(vocabulary: Vocabulary, pieces: dict[str, int]) -> tokenizers.Tokenizer:
    import tokenizers  # not at the top: 60 ms that an import of muser need not pay
    from tokenizers import models

    pre = vocabulary.pre
    if pre is None:
        raise ValueError(f"{vocabulary.model} is not a byte-level vocabulary")
    pairs = _pairs(vocabulary, pieces)
    library = tokenizers.Tokenizer(models.BPE(vocab=pieces, merges=pairs, ignore_merges=pre.ignore_merges))
    library.pre_tokenizer = splitter(pre)
    return library


def splitter(pre: PreTokenizer) -> pre_tokenizers.PreTokenizer:
    """Cuts a text into words, spelled in the byte alphabet."""
    from tokenizers import Regex, pre_tokenizers

    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in pre.patterns]
    return pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )


def _pairs(vocabulary: Vocabulary, pieces: dict[str, int]) -> list[tuple[str, str]]:
    pairs = []
    for index, merge in enumerate(vocabulary.merges):
        left, _, right = merge.partition(" ")
        if left not in pieces or right not in pieces or left + right not in pieces:
            raise vocabulary.broken(
                f"{PREFIX}merges[{index}] is {shown(merge)}: not two pieces, with a space between, that are in the "
                "vocabulary, as their union must be, and are no control tokens"
            )
        pairs.append((left, right))
    return pairs
