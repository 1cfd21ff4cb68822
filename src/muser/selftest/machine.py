"""A device under test, or the reference beside it: the same program of ops runs on both."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from muser import _muser
from muser.selftest.blocks import Floats, random_blocks, values_of

Program = Callable[["Machine"], Floats]


class Machine:
    """One device. With ``as_values`` its matrices are the float32 values of the blocks: the CPU device would round
    activations to eight bits for quantized ones, which no other device does."""

    def __init__(self, device: str, *, as_values: bool = False) -> None:
        self.device, self.as_values = device, as_values
        self.ops = self._open()

    def _open(self) -> _muser.DeviceOps:
        return _muser.DeviceOps(self.device)

    def run(self, program: Program) -> Floats:
        """On a fresh device object, so that nothing of an earlier program is left."""
        self.ops = self._open()
        return program(self)

    def matrix(self, type_name: str, rows: int, cols: int, name: str, gain: float = 1.0) -> int:
        """Random, the same for every device: ``name`` is the seed."""
        blocks = random_blocks(type_name, rows, cols, gain * cols**-0.5, _rng(name))
        if self.as_values:
            blocks = values_of(type_name, blocks).view(np.uint8)
        return self.ops.add_weight("F32" if self.as_values else type_name, blocks, rows, cols)

    def vector(self, n: int, name: str, mean: float = 1.0, std: float = 0.2) -> int:
        values = _rng(name).normal(mean, std, n).astype(np.float32)
        return self.ops.add_weight("F32", values.view(np.uint8), 1, n, vector=True)


class Portable(Machine):
    """The CPU device at its portable level, which every other level must equal in every bit."""

    def _open(self) -> _muser.DeviceOps:
        with cpu_level("portable"):
            return super()._open()


@contextmanager
def cpu_level(level: str) -> Iterator[None]:
    """For CPU devices that are opened inside."""
    before = os.environ.get("MUSER_CPU_LEVEL")
    os.environ["MUSER_CPU_LEVEL"] = level
    try:
        yield
    finally:
        if before is None:
            del os.environ["MUSER_CPU_LEVEL"]
        else:
            os.environ["MUSER_CPU_LEVEL"] = before


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def relative_rms(got: Floats, expected: Floats) -> float:
    """NaN where something is not finite, which no limit allows."""
    difference = got.astype(np.float64) - expected
    return float(np.sqrt((difference**2).mean() / (expected.astype(np.float64) ** 2).mean()))
