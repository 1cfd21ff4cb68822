"""Which weight type each matrix has. A mix is one weight type for all ("Q8_0"), or one of llama-quantize's rules
by layer ("Q4_K_M"); patterns then give single tensors another type."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from quant_blocks import ALL_TYPES

from tools.shapes.errors import ShapeError

# llama-quantize's "medium" mixes: this type for most matrices, Q6_K for those that matter most.
MEDIUM = {"Q4_K_M": "Q4_K", "Q5_K_M": "Q5_K"}
MIXES = (*ALL_TYPES, *MEDIUM)


def base_type(mix: str) -> str:
    if mix not in MIXES:
        raise ShapeError(f"mix must be one of {', '.join(MIXES)}, not {mix!r}")
    return MEDIUM.get(mix, mix)


def has_more_bits(layer: int, layers: int) -> bool:
    """The first and last eighth of the layers, and every third between (llama.cpp, `use_more_bits`)."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def weight_type(name: str, layers: int, tied: bool, mix: str, types: Mapping[str, str]) -> str:
    """``types``: pattern of tensor names to type; of several that match, the last one counts."""
    chosen = base_type(mix)
    if mix in MEDIUM and (is_head(name, tied) or is_favoured(name, layers)):
        chosen = "Q6_K"
    for pattern, kind in types.items():
        if fnmatchcase(name, pattern):
            chosen = kind
    if chosen not in ALL_TYPES:
        raise ShapeError(f"the type of {name} must be one of {', '.join(ALL_TYPES)}, not {chosen!r}")
    return chosen


def is_head(name: str, tied: bool) -> bool:
    return name == ("token_embd.weight" if tied else "output.weight")


def is_favoured(name: str, layers: int) -> bool:
    block, _, rest = name.removeprefix("blk.").partition(".")
    return rest in ("attn_v.weight", "ffn_down.weight") and has_more_bits(int(block), layers)
