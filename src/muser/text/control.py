"""Which tokens steer a model instead of being text, and which of them end a generation.

The type in the file decides. Converters sometimes give a control token the type of ordinary text; names that no
ordinary text has are control tokens whatever the type, because text that a user types must never become one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._muser import Strings
from .token_type import TokenType

_UNMISTAKABLE = re.compile(r"<\|[^\s<>|]+\|>|<(?:start|end)_of_turn>")

# Ends of a text or of a turn. Names such as "</s>" are ordinary HTML in Gemma's vocabulary: they count only where
# the token is a control token.
_STOP_NAMES = (
    "<|im_end|>",  # ChatML: Qwen, SmolLM2
    "<|endoftext|>",  # GPT-2, Qwen
    "<|eot_id|>",  # Llama 3
    "<|eom_id|>",  # Llama 3.1: the model hands over to a tool
    "<|eot|>",  # Llama 4, Muse Glimmer
    "<|end_of_text|>",  # Llama 3 and 4, Muse Glimmer
    "<end_of_turn>",  # Gemma
    "<eos>",  # Gemma
    "</s>",  # Llama 1 and 2
)

# Muse Glimmer ends its reasoning message and every call but the last with <|eom|> and then goes on: stopping there
# would lose the answer.
_NEVER_STOP = {"muse-glimmer": ("<|eom|>",)}


def control_ids(tokens: Strings, types: NDArray[Any]) -> frozenset[int]:
    by_type = np.flatnonzero((types == TokenType.CONTROL) | (types == TokenType.UNKNOWN)).tolist()
    by_name = [token for token in tokens.starting_with("<") if _UNMISTAKABLE.fullmatch(str(tokens[token]))]
    return frozenset(by_type + by_name)


def stop_ids(
    find: Callable[[str], int | None],
    control: frozenset[int],
    from_file: Iterable[int | None],
    architecture: str,
) -> frozenset[int]:
    """The file's own end ids, and every control token that has a well-known name. ``find``: the id of a text."""
    named = {find(name) for name in _STOP_NAMES} & control
    never = {find(name) for name in _NEVER_STOP.get(architecture, ())}
    return frozenset(token for token in {*from_file, *named} - never if token is not None)
