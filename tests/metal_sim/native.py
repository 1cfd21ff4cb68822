"""The runtime library through ctypes: the structures of runtime/launch.h, field by field."""

from __future__ import annotations

import ctypes as c
from functools import cache

from . import build
from .symbols import readable

MAX_BINDINGS = 31


class Extent(c.Structure):
    _fields_ = [("x", c.c_uint32), ("y", c.c_uint32), ("z", c.c_uint32)]


class Parameter(c.Structure):
    _fields_ = [("source", c.c_int32), ("index", c.c_int32), ("optional", c.c_bool), ("writable", c.c_bool)]
    _fields_ += [("bytes", c.c_uint32), ("alignment", c.c_uint32)]


class Kernel(c.Structure):
    _fields_ = [("name", c.c_char_p), ("call", c.c_void_p), ("parameters", c.POINTER(Parameter))]
    _fields_ += [("parameter_count", c.c_int32), ("max_threads", c.c_int32)]


class FunctionConstant(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_void_p), ("is_set", c.c_void_p)]
    _fields_ += [("index", c.c_int32), ("size", c.c_int32), ("data_type", c.c_int32)]


class Binding(c.Structure):
    _fields_ = [("base", c.c_void_p), ("bytes", c.c_uint64), ("memory", c.c_void_p)]


class ConstantValue(c.Structure):
    _fields_ = [("index", c.c_int32), ("data_type", c.c_int32), ("value", c.c_void_p)]


class Options(c.Structure):
    _fields_ = [("seed", c.c_uint32), ("check", c.c_uint8), ("randomize", c.c_uint8), ("shuffle_reductions", c.c_uint8)]
    _fields_ += [("threads", c.c_uint8)]


class Launch(c.Structure):
    _fields_ = [("kernel", c.POINTER(Kernel)), ("constants", c.POINTER(FunctionConstant))]
    _fields_ += [("buffers", Binding * MAX_BINDINGS), ("threadgroup_bytes", c.c_uint64 * MAX_BINDINGS)]
    _fields_ += [("values", c.POINTER(ConstantValue)), ("value_count", c.c_int32), ("grid", Extent), ("group", Extent)]
    _fields_ += [("grid_of_threads", c.c_bool), ("options", Options)]


class Statistics(c.Structure):
    _fields_ = [("threadgroups", c.c_uint64), ("switches", c.c_uint64), ("threadgroup_bytes", c.c_uint64)]


@cache
def runtime() -> c.CDLL:
    """Global, because kernels find the runtime's functions by name."""
    library = c.CDLL(str(build.runtime_library()), mode=c.RTLD_GLOBAL)
    library.msl_memory_new.restype = c.c_void_p
    library.msl_memory_new.argtypes = [c.c_void_p, c.c_uint64]
    library.msl_memory_delete.argtypes = [c.c_void_p]
    library.msl_memory_ordered.argtypes = [c.c_void_p]
    library.msl_take_reports.restype = c.c_void_p
    library.msl_free.argtypes = [c.c_void_p]
    library.msl_launch_bytes.restype = c.c_uint64
    assert library.msl_launch_bytes() == c.sizeof(Launch), "native.py does not match runtime/launch.h"
    return library


def take_reports() -> list[str]:
    """What the checks found since the last call, with source lines."""
    pointer = runtime().msl_take_reports()
    text = c.string_at(pointer).decode()
    runtime().msl_free(pointer)
    return [readable(line) for line in text.splitlines()]
