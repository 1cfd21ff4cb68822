"""The vocabulary of a GGUF file as one checked record.

Everything that the encoders rely on is verified here, before anything is built from it. ``Vocabulary`` is plain
data: nothing in it depends on the way of encoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from .._checks import shown
from .._muser import StringIndex, Strings
from ..errors import ModelFormatError
from .control import control_ids, stop_ids
from .metadata import PREFIX, Metadata, MetadataReader, broken
from .pretokenizers import PreTokenizer, find
from .token_type import TokenType

_BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class Vocabulary:
    """``tokens``, ``types`` and ``scores`` are parallel because the file format makes them so."""

    model: Literal["gpt2", "llama"]
    pre: PreTokenizer | None  # None: SentencePiece has none
    tokens: Strings
    ids: StringIndex
    types: NDArray[np.uint8]
    scores: NDArray[np.float64] | None  # None: gpt2
    merges: Strings | None  # None: llama
    control: frozenset[int]
    stop: frozenset[int]
    bos: int | None
    eos: int | None
    eot: int | None
    eom: int | None
    unknown: int | None
    padding: int | None
    mask: int | None
    add_bos: bool
    add_eos: bool
    add_space_prefix: bool
    broken: Callable[[str], ModelFormatError]  # the error for a message that begins with a key

    def text(self, token: int) -> str:
        """The token as the file spells it."""
        return cast(str, self.tokens[token])

    def ordinary(self, *kinds: TokenType) -> NDArray[np.bool_]:
        """A flag a token: of one of these types (any, if none is given), and no control token."""
        of_type = bytes(not kinds or kind in kinds for kind in range(256))
        flags = np.frombuffer(bytearray(self.types.tobytes().translate(of_type)), np.bool_)
        flags[list(self.control)] = False
        return flags


def read_vocabulary(
    source: Metadata, path: str | None = None, offsets: Mapping[str, int] | None = None
) -> Vocabulary:
    """Raises UnsupportedModelError for a model or pre-tokenizer that muser lacks, ModelFormatError for bad data."""
    reader = MetadataReader(source, path, offsets)
    model = reader.string("model")
    if model is None:
        raise reader.broken(f"{PREFIX}model is missing")
    if model not in ("gpt2", "llama"):
        raise reader.unsupported(f"{PREFIX}model is {shown(model)}; supported: 'gpt2', 'llama'")
    pre = _pre_tokenizer(reader) if model == "gpt2" else None

    tokens = reader.strings("tokens")
    if len(tokens) == 0:
        raise reader.broken(f"{PREFIX}tokens is empty")
    ids = StringIndex(tokens)
    if ids.duplicate is not None:
        first, second = ids.duplicate
        raise reader.broken(f"{PREFIX}tokens has {shown(tokens[first])} twice, as {first} and {second}")
    types = _types(reader, tokens)
    control = control_ids(tokens, types)

    def special(name: str) -> int | None:
        return reader.token_id(f"{name}_token_id", len(tokens))

    bos, eos, eot, eom = special("bos"), special("eos"), special("eot"), special("eom")
    add_bos = reader.boolean("add_bos_token")
    if add_bos and bos is None:
        raise reader.broken(f"{PREFIX}add_bos_token is true, but {PREFIX}bos_token_id is missing")
    if add_bos is None:
        add_bos = bos is not None and (pre is None or pre.add_bos)
    add_space_prefix = reader.boolean("add_space_prefix")
    return Vocabulary(
        model=cast(Literal["gpt2", "llama"], model),
        pre=pre,
        tokens=tokens,
        types=types,
        scores=_scores(reader, len(tokens)) if model == "llama" else None,
        merges=reader.strings("merges") if model == "gpt2" else None,
        ids=ids,
        control=control,
        stop=stop_ids(ids.find, control, (eos, eot, eom), reader.architecture()),
        bos=bos,
        eos=eos,
        eot=eot,
        eom=eom,
        unknown=special("unknown"),
        # Real files name one just past the vocabulary; nothing here pads.
        padding=reader.token_id("padding_token_id", len(tokens), tolerant=True),
        mask=special("mask"),
        add_bos=add_bos,
        add_eos=bool(reader.boolean("add_eos_token")),
        # A byte-level vocabulary spells its spaces out; only SentencePiece puts one in front.
        add_space_prefix=model == "llama" and (add_space_prefix is None or add_space_prefix),
        broken=partial(broken, path=path, offsets=offsets or {}),
    )


def _pre_tokenizer(reader: MetadataReader) -> PreTokenizer:
    name = reader.string("pre") or "default"
    found = find(name)
    if found is None:
        raise reader.unsupported(f"{PREFIX}pre is {shown(name)}, a pre-tokenizer that is not supported")
    return found


def _types(reader: MetadataReader, tokens: Strings) -> NDArray[np.uint8]:
    types = reader.numbers("token_type", len(tokens))
    if types is None:
        return np.full(len(tokens), TokenType.NORMAL, np.uint8)
    if types.dtype.kind not in "iu" or types.min() < min(TokenType) or types.max() > max(TokenType):
        # Not before something may be wrong: it takes a millisecond.
        unknown = np.flatnonzero(~np.isin(types, list(TokenType)))
        if unknown.size:
            raise reader.broken(f"{PREFIX}token_type[{unknown[0]}] is {types[unknown[0]]}")
    types = types.astype(np.uint8)
    for token in np.flatnonzero(types == TokenType.BYTE).tolist():
        if not _BYTE_TOKEN.fullmatch(cast(str, tokens[token])):
            raise reader.broken(
                f"{PREFIX}tokens[{token}] is {shown(tokens[token])}, but its type is BYTE (<0xXX>)"
            )
    return types


def _scores(reader: MetadataReader, count: int) -> NDArray[np.float64]:
    numbers = reader.numbers("scores", count)
    if numbers is None:
        raise reader.broken(f"{PREFIX}scores is missing")
    try:
        scores: NDArray[Any] = numbers.astype(np.float64)
    except OverflowError:
        raise reader.broken(f"{PREFIX}scores has an integer beyond float64") from None
    for token in np.flatnonzero(np.isnan(scores)).tolist():
        raise reader.broken(f"{PREFIX}scores[{token}] is nan")
    return scores
