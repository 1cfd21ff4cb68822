"""The fake Metal as tests see it: settings, counters, findings, and the objects that live."""

from __future__ import annotations

import contextlib
import ctypes as c
import time
from collections.abc import Iterator
from functools import cache

from . import build, native


@cache
def _library() -> c.CDLL:
    native.runtime()
    library = c.CDLL(str(build.fake_metal_library()), mode=c.RTLD_GLOBAL)
    library.metal_sim_set.argtypes = [c.c_char_p, c.c_int64]
    library.metal_sim_set.restype = library.metal_sim_get.restype = c.c_bool
    library.metal_sim_get.argtypes = [c.c_char_p, c.POINTER(c.c_int64)]
    library.metal_sim_take_trace.restype = library.objc_live_classes.restype = c.c_void_p
    library.objc_live_objects.restype = c.c_long
    return library


def get(name: str) -> int:
    """A setting or counter of fake/settings.h."""
    value = c.c_int64()
    if not _library().metal_sim_get(name.encode(), c.byref(value)):
        raise KeyError(name)
    return value.value


def put(name: str, value: int) -> None:
    if not _library().metal_sim_set(name.encode(), value):
        raise KeyError(name)


@contextlib.contextmanager
def setting(**values: int) -> Iterator[None]:
    """Settings for the length of a block."""
    before = {name: get(name) for name in values}
    try:
        for name, value in values.items():
            put(name, value)
        yield
    finally:
        for name, value in before.items():
            put(name, value)


def clear_counters() -> None:
    _library().metal_sim_clear_counters()


def take_trace() -> list[str]:
    """With the setting ``trace``: the commands in the order of encoding."""
    return _text(_library().metal_sim_take_trace()).splitlines()


def live_objects() -> int:
    return _library().objc_live_objects()


def live_classes() -> dict[str, int]:
    lines = _text(_library().objc_live_classes()).splitlines()
    return {name: int(count) for name, count in (line.split() for line in lines)}


def settled_objects(expected: int = 0, seconds: float = 2) -> int:
    """Live objects, once the GPU's threads had time to let go of theirs."""
    end = time.monotonic() + seconds
    while live_objects() > expected and time.monotonic() < end:
        time.sleep(0.002)
    return live_objects()


def _text(pointer: int) -> str:
    text = c.string_at(pointer).decode()
    native.runtime().msl_free(pointer)
    return text


take_reports = native.take_reports
