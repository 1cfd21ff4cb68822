"""Runs one kernel of a .metal file on an NVIDIA GPU, with the call of runner.Library: ``Library(ptx).run(...)``.

Through the driver alone (libcuda), which compiles the PTX. The PTX is made where clang is (build.ptx) and may be carried
to a machine that has none.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np


class CudaError(Exception):
    pass


_JIT_MAX_REGISTERS = 0  # CU_JIT_MAX_REGISTERS


class _Arguments(c.Structure):  # msl::Arguments of msl/launch_ptx.h
    _fields_ = [("buffers", c.c_void_p * 31), ("threadgroup", c.c_uint32 * 31)]


@cache
def _driver() -> c.CDLL:
    """Raises OSError where there is no driver."""
    driver = c.CDLL("libcuda.so.1")
    _check(driver.cuInit(0))
    device, context = c.c_int(), c.c_void_p()
    _check(driver.cuDeviceGet(c.byref(device), 0))
    _check(driver.cuDevicePrimaryCtxRetain(c.byref(context), device))
    _check(driver.cuCtxSetCurrent(context))
    return driver


def _check(status: int) -> None:
    if status:
        raise CudaError(f"CUDA error {status}")


class Memory:
    """Device memory that holds a copy of an array."""

    def __init__(self, array: np.ndarray) -> None:
        self.address = c.c_uint64()
        self.bytes = max(array.nbytes, 1)
        _check(_driver().cuMemAlloc_v2(c.byref(self.address), c.c_size_t(self.bytes)))
        self.put(array)

    def put(self, array: np.ndarray) -> None:
        flat = np.ascontiguousarray(array)
        _check(_driver().cuMemcpyHtoD_v2(self.address, c.c_void_p(flat.ctypes.data), c.c_size_t(array.nbytes)))

    def get(self, array: np.ndarray) -> None:
        flat = np.empty_like(array, order="C")
        _check(_driver().cuMemcpyDtoH_v2(c.c_void_p(flat.ctypes.data), self.address, c.c_size_t(array.nbytes)))
        array[...] = flat

    def __del__(self) -> None:
        if self.address.value:
            _driver().cuMemFree_v2(self.address)


class Library:
    """The kernels of a PTX file that build.ptx made, assembled by the driver.

    ``registers`` is the most that a thread may have. Left to itself the assembler takes more for a matvec, and too few
    threads are there to hide the latency of memory.
    """

    def __init__(self, ptx: Path, registers: int = 128) -> None:
        self._module = c.c_void_p()
        option, value = (c.c_int * 1)(_JIT_MAX_REGISTERS), (c.c_void_p * 1)(registers)
        _check(_driver().cuModuleLoadDataEx(c.byref(self._module), ptx.read_bytes() + b"\0", c.c_uint(1), option, value))

    def set_constant(self, name: str, value: np.generic) -> None:
        """A function constant by its name in the source; it stays set."""
        for symbol, scalar in ((f"{name}_value", np.array(value)), (f"{name}_is_set", np.array(True))):
            address, size = c.c_uint64(), c.c_size_t()
            _check(_driver().cuModuleGetGlobal_v2(c.byref(address), c.byref(size), self._module, symbol.encode()))
            _check(_driver().cuMemcpyHtoD_v2(address, c.c_void_p(scalar.ctypes.data), size))

    def prepare(
        self, name: str, buffers: Mapping[int, Memory], grid: Sequence[int], group: Sequence[int], threadgroup: Sequence[int] = ()
    ) -> Launch:
        return Launch(self._module, name, buffers, grid, group, threadgroup)

    def run(
        self,
        name: str,
        buffers: Sequence[np.ndarray | bytes | None] | Mapping[int, np.ndarray | bytes],
        *,
        grid: Sequence[int],
        group: Sequence[int],
        threadgroup: Sequence[int] = (),
    ) -> None:
        """Arrays are written back. ``grid`` is in threadgroups: a grid of threads has no counterpart."""
        bound = dict(buffers) if isinstance(buffers, Mapping) else {i: b for i, b in enumerate(buffers) if b is not None}
        arrays = {i: b if isinstance(b, np.ndarray) else np.frombuffer(b, np.uint8) for i, b in bound.items()}
        memory = {i: Memory(array) for i, array in arrays.items()}
        self.prepare(name, memory, grid, group, threadgroup)()
        synchronize()
        for i, array in arrays.items():
            if array.flags.writeable:
                memory[i].get(array)


class Launch:
    """A dispatch that can be repeated: call it, then ``synchronize()``."""

    def __init__(
        self, module: c.c_void_p, name: str, buffers: Mapping[int, Memory], grid: Sequence[int], group: Sequence[int],
        threadgroup: Sequence[int],
    ) -> None:  # fmt: skip
        self._function = c.c_void_p()
        _check(_driver().cuModuleGetFunction(c.byref(self._function), module, f"{name}_ptx".encode()))
        self._memory = dict(buffers)
        self._arguments = _Arguments()
        for i, memory in self._memory.items():
            self._arguments.buffers[i] = memory.address.value
        self._shared = 0
        for i, size in enumerate(threadgroup):
            self._arguments.threadgroup[i] = self._shared
            self._shared += -(-size // 16) * 16
        self._pointers = (c.c_void_p * 1)(c.addressof(self._arguments))
        self._extents = [c.c_uint(n) for n in [*[*grid, 1, 1][:3], *[*group, 1, 1][:3]]]

    def __call__(self, stream: c.c_void_p | None = None) -> None:
        _check(_driver().cuLaunchKernel(self._function, *self._extents, c.c_uint(self._shared), stream, self._pointers, None))


class Graph:
    """Launches, one after the other, that the GPU takes at once: call it, then ``synchronize()``."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._launches = list(launches)  # their memory
        self._stream, graph, self._graph = c.c_void_p(), c.c_void_p(), c.c_void_p()
        driver = _driver()
        _check(driver.cuStreamCreate(c.byref(self._stream), c.c_uint(1)))  # CU_STREAM_NON_BLOCKING
        _check(driver.cuStreamBeginCapture_v2(self._stream, c.c_int(2)))  # CU_STREAM_CAPTURE_MODE_RELAXED
        for launch in self._launches:
            launch(self._stream)
        _check(driver.cuStreamEndCapture(self._stream, c.byref(graph)))
        _check(driver.cuGraphInstantiateWithFlags(c.byref(self._graph), graph, c.c_ulonglong(0)))
        _check(driver.cuGraphDestroy(graph))

    def __call__(self) -> None:
        _check(_driver().cuGraphLaunch(self._graph, self._stream))

    def __del__(self) -> None:
        if self._graph.value:
            _driver().cuGraphExecDestroy(self._graph)
        if self._stream.value:
            _driver().cuStreamDestroy_v2(self._stream)


def synchronize() -> None:
    _check(_driver().cuCtxSynchronize())
