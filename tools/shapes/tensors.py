"""The tensors of a shape, in the order in which the file holds them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import toy
from quant_blocks import block_size

from tools.shapes.errors import ShapeError
from tools.shapes.mixes import weight_type
from tools.shapes.shape import Shape


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[int, ...]  # (rows, columns), or (size,)
    type: str
    mean: float
    std: float

    @property
    def blocks(self) -> int:
        return prod(self.shape) // block_size(self.type)[0]

    @property
    def nbytes(self) -> int:
        return self.blocks * block_size(self.type)[1]


def tensors(shape: Shape) -> list[Tensor]:
    """Raises ShapeError where a row is not a whole number of blocks."""
    found = []
    for name, size, std in toy.matrices(shape.toy, shape.vocab):
        kind = weight_type(name, shape.toy.layers, shape.toy.tied, shape.mix, shape.types)
        values = block_size(kind)[0]
        if size[1] % values:
            raise ShapeError(f"{name} has {size[1]} columns, and {kind} needs a multiple of {values}")
        found.append(Tensor(name, size, kind, 0.0, std))
    found += [Tensor(name, (size,), "F32", mean, std) for name, size, mean, std in toy.vectors(shape.toy)]
    return found
