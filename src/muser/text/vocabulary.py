"""The vocabulary of a GGUF file as one checked record.

Everything that the encoders rely on is verified here, before anything is built from it. ``Vocabulary`` is plain
data: nothing in it depends on the way of encoding.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

from .._checks import shown
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
    tokens: list[str]
    types: list[int]
    scores: list[float]  # empty for gpt2
    merges: list[str]  # empty for llama
    ids: dict[str, int]
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
    if not tokens:
        raise reader.broken(f"{PREFIX}tokens is empty")
    ids = _unique(reader, tokens)
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
        scores=_scores(reader, len(tokens)) if model == "llama" else [],
        merges=reader.strings("merges") if model == "gpt2" else [],
        ids=ids,
        control=control,
        stop=stop_ids(ids, control, (eos, eot, eom), reader.architecture()),
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


def _unique(reader: MetadataReader, tokens: list[str]) -> dict[str, int]:
    """Text to id. Empty texts are allowed, because real files have them; nothing encodes to one."""
    ids = {text: token for token, text in enumerate(tokens)}
    if len(ids) != len(tokens):
        for token, text in enumerate(tokens):
            if text and ids[text] != token:
                raise reader.broken(f"{PREFIX}tokens has {shown(text)} twice, as {token} and {ids[text]}")
    ids.pop("", None)
    return ids


def _types(reader: MetadataReader, tokens: list[str]) -> list[int]:
    types = reader.numbers("token_type", len(tokens))
    if types is None:
        return [TokenType.NORMAL] * len(tokens)
    for kind in set(types) - {int(known) for known in TokenType}:
        raise reader.broken(f"{PREFIX}token_type[{types.index(kind)}] is {kind}")
    byte = int(TokenType.BYTE)
    for token in (token for token, kind in enumerate(types) if kind == byte):
        if not _BYTE_TOKEN.fullmatch(tokens[token]):
            raise reader.broken(
                f"{PREFIX}tokens[{token}] is {shown(tokens[token])}, but its type is BYTE (<0xXX>)"
            )
    return cast("list[int]", types)


def _scores(reader: MetadataReader, count: int) -> list[float]:
    scores = reader.numbers("scores", count)
    if scores is None:
        raise reader.broken(f"{PREFIX}scores is missing")
    for token in (token for token, score in enumerate(scores) if math.isnan(score)):
        raise reader.broken(f"{PREFIX}scores[{token}] is nan")
    return scores
