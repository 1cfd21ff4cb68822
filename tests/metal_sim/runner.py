"""Runs one kernel of a .metal file over numpy arrays: ``Library(path).run("name", [...], grid=..., group=...)``.

Arrays are copied into memory of their own with a red zone on both sides, and back after the run. See README.md.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import build, native

_RED_ZONE = 4096
_PAGE = 16384  # Apple's: buffers start on one
# MTLDataType of a numpy scalar type, as the fake Metal gets it from setConstantValue:type:atIndex:.
_DATA_TYPES = {"bool": 53, "int16": 37, "uint16": 41, "int32": 29, "uint32": 33, "float32": 3, "float16": 16}


class KernelFault(AssertionError):
    """The checks found something; ``reports`` is what."""

    def __init__(self, reports: list[str]) -> None:
        super().__init__("\n".join(reports))
        self.reports = reports


@dataclass(frozen=True)
class Run:
    threadgroups: int
    switches: int  # of lanes: what a run costs
    threadgroup_bytes: int


class _Guarded:
    """A copy of an array between red zones."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.room = np.full(array.nbytes + 2 * _RED_ZONE + _PAGE, 0xFB, np.uint8)
        self.start = _RED_ZONE + -(self.room.ctypes.data + _RED_ZONE) % _PAGE
        self.data = self.room[self.start : self.start + array.nbytes]
        self.data[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.address = self.data.ctypes.data
        self.memory = native.runtime().msl_memory_new(self.address, array.nbytes)

    def finish(self, index: int) -> list[str]:
        native.runtime().msl_memory_delete(self.memory)
        if self.array.flags.writeable:
            self.array[...] = self.data.view(self.array.dtype).reshape(self.array.shape)
        outside = (self.room[: self.start], self.room[self.start + self.array.nbytes :])
        return [f"buffer({index}): memory beside it was written"] if any((z != 0xFB).any() for z in outside) else []


class Library:
    """The kernels of a .metal file, built in one of ``build.MODES``."""

    def __init__(self, path: str | Path, mode: str = "check", include: Path | None = None) -> None:
        native.runtime()
        self.mode = mode
        self.file = build.kernel_library(Path(path), mode, include)
        self._library = c.CDLL(str(self.file))
        self._kernels = {}
        for kernel in (native.Kernel * 4096).in_dll(self._library, "msl_kernels"):
            if not kernel.name:
                break
            self._kernels[kernel.name.decode()] = kernel
        self._constants = c.pointer(native.FunctionConstant.in_dll(self._library, "msl_constants"))

    @property
    def kernels(self) -> list[str]:
        return list(self._kernels)

    def run(
        self,
        name: str,
        buffers: Sequence[np.ndarray | bytes | None] | Mapping[int, np.ndarray | bytes],
        *,
        grid: Sequence[int],
        group: Sequence[int],
        threads: bool = False,
        threadgroup: Sequence[int] = (),
        constants: Mapping[int, np.generic] | None = None,
        seed: int | None = None,
        shuffle_reductions: bool = False,
    ) -> Run:
        """Dispatches ``grid`` threadgroups (threads with ``threads``) of ``group`` threads; raises KernelFault.

        ``buffers``: by index; bytes are what setBytes binds. Arrays are written back. ``threadgroup``: bytes of each
        threadgroup argument. ``constants``: numpy scalars by index. ``seed``: runs threadgroups, SIMD-groups and
        lanes in a random order, with another layout of SIMD-group matrices.
        """
        bound = dict(buffers) if isinstance(buffers, Mapping) else {i: b for i, b in enumerate(buffers) if b is not None}
        launch = native.Launch()
        launch.kernel = c.pointer(self._kernels[name])
        launch.constants = self._constants
        guarded: dict[int, _Guarded] = {}
        shared: dict[int, _Guarded] = {}  # an array bound twice is one buffer
        keep: list[object] = []
        for i, value in bound.items():
            if isinstance(value, np.ndarray):
                guarded[i] = shared.setdefault(id(value), _Guarded(value)) if id(value) not in shared else shared[id(value)]
                launch.buffers[i] = native.Binding(guarded[i].address, value.nbytes, guarded[i].memory)
            else:
                room = np.frombuffer(value + bytes(16), np.uint8).copy()
                aligned = c.create_string_buffer(len(value) + 64)
                start = -c.addressof(aligned) % 16 + c.addressof(aligned)
                c.memmove(start, room.ctypes.data, len(value))
                keep.append(aligned)
                launch.buffers[i] = native.Binding(start, len(value), None)
        for i, size in enumerate(threadgroup):
            launch.threadgroup_bytes[i] = size
        values = (native.ConstantValue * max(1, len(constants or {})))()
        for place, (index, value) in zip(values, (constants or {}).items()):
            scalar = np.array(value)
            keep.append(scalar)
            place.index, place.data_type, place.value = index, _DATA_TYPES[scalar.dtype.name], scalar.ctypes.data
        launch.values, launch.value_count = values, len(constants or {})
        launch.grid, launch.group = native.Extent(*_three(grid)), native.Extent(*_three(group))
        launch.grid_of_threads = threads
        launch.options = native.Options(seed or 0, self.mode == "check", seed is not None, shuffle_reductions, 2)
        statistics = native.Statistics()
        native.runtime().msl_dispatch(c.byref(launch), c.byref(statistics))
        reports = native.take_reports()
        for i, guard in {id(g): (i, g) for i, g in guarded.items()}.values():
            reports += guard.finish(i)
        if reports:
            raise KernelFault(reports)
        return Run(statistics.threadgroups, statistics.switches, statistics.threadgroup_bytes)


def _three(extent: Sequence[int]) -> list[int]:
    return [*extent, 1, 1][:3]
