"""Byte-level BPE (``tokenizer.ggml.model`` = ``gpt2``): the ``tokenizers`` library cuts a text into words, the merges
are in csrc/text/bpe.cpp.

Why not the library's merges: it builds them from Python strings, a tenth of a second for SmolLM2 and a second for
the Llama 3 vocabulary, which the first answer would wait for; and it keeps the interpreter lock while it merges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _muser
from .._checks import shown
from .._workers import Workers
from ..errors import ParameterError
from . import byte_level
from .chunks import chunks
from .metadata import PREFIX
from .pretokenizers import PreTokenizer
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    from tokenizers import pre_tokenizers


class BpeEncoder:
    """Immutable; any number of threads may encode at once."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        if vocabulary.pre is None or vocabulary.merges is None:
            raise ValueError(f"{vocabulary.model} is not a byte-level vocabulary")
        ordinary = vocabulary.ordinary()
        merges = Workers(1).submit(
            _muser.BpeEncoder, vocabulary.ids, ordinary, vocabulary.merges, ignore_merges=vocabulary.pre.ignore_merges
        )
        self._splitter = splitter(vocabulary.pre)  # meanwhile: the library's first import takes as long
        self._merges = merges.result()
        broken = self._merges.broken_merge
        if broken is not None:
            raise vocabulary.broken(
                f"{PREFIX}merges[{broken}] is {shown(vocabulary.merges[broken])}: not two pieces, with a space "
                "between, that are in the vocabulary, as their union must be, and are no control tokens"
            )

        def is_missing(character: str) -> bool:
            token = vocabulary.ids.find(character)
            return token is None or not ordinary[token]

        self._missing = bytes(
            byte
            for byte, character in enumerate(byte_level.CHARACTERS)
            if byte not in byte_level.NEVER_IN_UTF8 and is_missing(character)
        )

    def encode(self, text: str) -> list[int]:
        """Ids of a text without special tokens. ``text`` must be encodable as UTF-8."""
        if self._missing:
            self._refuse_missing(text)
        ids: list[int] = []
        for chunk in chunks(text):
            ids += self._merges.encode(self._splitter.pre_tokenize_str(chunk))
        return ids

    def _refuse_missing(self, text: str) -> None:
        """Small vocabularies lack bytes; the merges would drop them without a word."""
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


def splitter(pre: PreTokenizer) -> pre_tokenizers.PreTokenizer:
    """Cuts a text into words, spelled in the byte alphabet."""
    from tokenizers import Regex, pre_tokenizers  # not at the top: an import of muser need not pay for it

    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in pre.patterns]
    return pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
