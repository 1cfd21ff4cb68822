"""Which protocol a model speaks. Its chat template says so: it writes the protocol's marks itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .llama3 import LlamaReader
from .muse import MuseReader, speaks_muse
from .reader import Calls, Reader
from .tags import TagReader

if TYPE_CHECKING:
    from ..text import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a model marks what it writes in one answer."""

    protocol: Literal["muse", "llama", "tags"]
    thinks: bool
    """Whether there can be reasoning at all."""

    thinking: bool = False
    """Whether the prompt has opened it already."""


def way_of(tokenizer: Tokenizer, template: str, prompt: str) -> Way:
    """``template``: its source. ``prompt``: the text that the model goes on with."""
    if speaks_muse(tokenizer, template):
        return Way(protocol="muse", thinks=MuseReader.thinks)
    if "<|start_header_id|>" in template and "<tool_call>" not in template:
        return Way(protocol="llama", thinks=LlamaReader.thinks)
    thinks = "</think>" in template
    return Way(protocol="tags", thinks=thinks, thinking=thinks and prompt.rstrip().endswith("<think>"))


def make_reader(tokenizer: Tokenizer, way: Way, calls: Calls) -> Reader:
    if way.protocol == "muse":
        return MuseReader(tokenizer, calls)
    if way.protocol == "llama":
        return LlamaReader(tokenizer, calls)
    return TagReader(tokenizer, calls, thinks=way.thinks, thinking=way.thinking)
