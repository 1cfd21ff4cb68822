"""What a shape is: an architecture, its sizes, its vocabulary and its weight types.

Named shapes and JSON files have one form, a flat object: `arch`, any size that tests/toy.py's ``Toy`` has
(`layers`, `d_model`, `heads`, ...), `vocab`, `mix` and `types` (mixes.py), or `base`, another shape that it
changes. What is not given is as in the toy model of that family.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import toy_vocab
from toy import ARCHITECTURES, Toy, toy_params

from tools.shapes.errors import ShapeError
from tools.shapes.mixes import base_type

Description = Mapping[str, Any]

NAMED: dict[str, Description] = {
    # Meta's muse-glimmer-30B-kquant-17gb.gguf: the Q4_K_M mix with a Q5_K head (its readers agree on the types,
    # and the sizes add up to the published one).
    "muse-glimmer-30b": {
        "arch": "muse-glimmer", "layers": 52, "d_model": 6656, "d_ff": 19968, "heads": 32, "kv_heads": 2,
        "head_dim": 128, "context": 131072, "window": 2048, "logit_scale": 0.19611613513818404, "vocab": 202048,
        "mix": "Q4_K_M", "types": {"output.weight": "Q5_K"},
    },
    "llama-8b": {  # Meta-Llama-3-8B
        "arch": "llama", "layers": 32, "d_model": 4096, "d_ff": 14336, "heads": 32, "kv_heads": 8, "head_dim": 128,
        "context": 8192, "theta": 500000.0, "vocab": 128256, "mix": "Q4_K_M",
    },
    **{f"small-{arch}": {"arch": arch} for arch in ARCHITECTURES},
}  # fmt: skip

# Fields of Toy that a description does not have: `mix` and the seed of the writing say these.
_OTHERWISE_SAID = {"arch", "quant", "seed"}
_SIZES = {field.name for field in fields(Toy)} - _OTHERWISE_SAID
_POSITIVE = {field.name for field in fields(Toy) if field.type == "int"} - _OTHERWISE_SAID
_SMALLEST_VOCAB = toy_vocab.SIZE
_DEFAULT_VOCAB = 512


@dataclass(frozen=True)
class Shape:
    name: str
    toy: Toy
    vocab: int
    mix: str
    types: Mapping[str, str]  # pattern of tensor names -> weight type


def find(name: str, changes: Description | None = None) -> Shape:
    """The shape of that name, or in that JSON file, with some keys changed. Raises ShapeError."""
    description = {**described(name), **(changes or {})}
    return build(Path(name).stem if name.endswith(".json") else name, description)


def described(name: str) -> Description:
    if name.endswith(".json"):
        try:
            description = json.loads(Path(name).read_text())
        except ValueError as error:
            raise ShapeError(f"{name} is not JSON: {error}") from None
        if not isinstance(description, dict):
            raise ShapeError(f"{name} holds no JSON object")
    elif name in NAMED:
        description = dict(NAMED[name])
    else:
        raise ShapeError(f"no shape is called {name!r}: {', '.join(NAMED)}, or a JSON file")
    base = description.pop("base", None)
    if base is not None and base not in NAMED:
        raise ShapeError(f"base must be one of {', '.join(NAMED)}, not {base!r}")
    return {**NAMED[base], **description} if base else description


def build(name: str, description: Description) -> Shape:
    sizes = dict(description)
    arch, vocab = sizes.pop("arch", None), sizes.pop("vocab", _DEFAULT_VOCAB)
    mix, types = sizes.pop("mix", "Q4_K_M"), sizes.pop("types", {})
    if unknown := sizes.keys() - _SIZES:
        raise ShapeError(f"a shape has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(_SIZES))}")
    for key, value in {**{key: sizes[key] for key in sizes.keys() & _POSITIVE}, "vocab": vocab}.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ShapeError(f"{key} must be a positive integer, not {value!r}")
    if vocab < _SMALLEST_VOCAB:
        raise ShapeError(f"vocab must be at least {_SMALLEST_VOCAB}, not {vocab}")
    if arch not in ARCHITECTURES:
        raise ShapeError(f"arch must be one of {', '.join(ARCHITECTURES)}, not {arch!r}")
    if not isinstance(types, dict) or not all(isinstance(kind, str) for kind in types.values()):
        raise ShapeError(f"types must be an object of name patterns and types, not {types!r}")
    toy = toy_params(arch, base_type(mix), **sizes)
    if isinstance(toy.pattern, list):  # a period here, one flag a layer in the file
        toy = replace(toy, pattern=[toy.pattern[i % len(toy.pattern)] for i in range(toy.layers)])
    return Shape(name, toy, vocab, mix, types)
