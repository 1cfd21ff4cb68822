"""host/example.mm from Python, as it is or with a fault planted."""

from __future__ import annotations

import ctypes as c
import mmap
from pathlib import Path

import numpy as np

from . import build, fake_metal, native

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "host" / "example.mm"
ROWS, BLOCKS = 37, 8


class HostError(Exception):
    pass


def flattened(name: str) -> bytes:
    """A kernel file with its one include in place, as a host hands it to newLibraryWithSource."""
    text = (HERE / "kernels" / f"{name}.metal").read_text()
    return text.replace('#include "common.h"', (HERE / "kernels" / "common.h").read_text()).encode()


def compiled(source: Path) -> Path:
    return build.host_library([source], ["-Wno-unused-variable"])


class Host:
    """``tolerant``: an error of opening is kept in ``errors`` instead of raised, and ``handle`` is empty."""

    def __init__(self, source: Path = SOURCE, *, tolerant: bool = False) -> None:
        fake_metal.live_objects()  # loads the fake first
        self.library = c.CDLL(str(compiled(source)))
        for function in (self.library.host_open, self.library.host_forward, self.library.host_close):
            function.restype = c.c_void_p
        rng = np.random.default_rng(5)
        self.matrix = np.zeros((ROWS, BLOCKS), [("scale", "f2"), ("values", "i1", 32)])
        self.matrix["scale"] = rng.random((ROWS, BLOCKS)) * 0.1
        self.matrix["values"] = rng.integers(-127, 128, (ROWS, BLOCKS, 32))
        pages = -(-self.matrix.nbytes // 16384) * 16384
        self._mapped = mmap.mmap(-1, pages + 16384)
        address = c.addressof(c.c_char.from_buffer(self._mapped))
        self.address = address + -address % 16384
        c.memmove(self.address, self.matrix.tobytes(), self.matrix.nbytes)
        self.handle = c.c_void_p()
        self.errors: list[str] = []
        try:
            self._call(
                self.library.host_open, flattened("norm"), flattened("matvec"), c.c_void_p(self.address),
                c.c_size_t(pages), ROWS, BLOCKS, c.byref(self.handle),
            )  # fmt: skip
        except HostError as error:
            if not tolerant:
                raise
            self.errors.append(f"error: {error}")

    def _call(self, function: c._NamedFuncPointer, *arguments: object) -> None:
        error = function(*arguments)
        if error:
            text = c.string_at(error).decode()
            native.runtime().msl_free(c.c_void_p(error))
            raise HostError(text)

    def forward(self, x: np.ndarray, timeout_ms: int = 5000) -> np.ndarray:
        y = np.full((len(x), ROWS), np.nan, "f4")
        self._call(
            self.library.host_forward, self.handle, x.ctypes.data_as(c.c_void_p), len(x),
            y.ctypes.data_as(c.c_void_p), timeout_ms,
        )  # fmt: skip
        return y

    def expected(self, x: np.ndarray) -> np.ndarray:
        normed = x / np.sqrt((x.astype("f8") ** 2).mean(1, keepdims=True) + 1e-5)
        dense = (self.matrix["values"] * self.matrix["scale"][..., None].astype("f8")).reshape(ROWS, -1)
        return normed @ dense.T

    def close(self) -> None:
        if self.handle:
            handle, self.handle = self.handle, c.c_void_p()
            self._call(self.library.host_close, handle)
