"""Which protocol a model speaks. Its chat template says so: it writes the protocol's marks itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .llama3 import LlamaReader
from .muse import MuseReader, speaks_muse
from .reader import Calls, Reader
from .tags import TagReader

if TYPE_CHECKING:
    from ..text import Tokenizer


def make_reader(tokenizer: Tokenizer, template: str, prompt: str, calls: Calls) -> Reader:
    """``template``: its source. ``prompt``: the text that the model goes on with."""
    if speaks_muse(tokenizer, template):
        return MuseReader(tokenizer, calls)
    if "<|start_header_id|>" in template and "<tool_call>" not in template:
        return LlamaReader(tokenizer, calls)
    thinks = "</think>" in template
    return TagReader(tokenizer, calls, thinks=thinks, thinking=thinks and prompt.rstrip().endswith("<think>"))
