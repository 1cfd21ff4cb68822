"""The floors of a machine: streaming-read bandwidth and int8 multiply-adds a second (probe.cpp, compiled on
the spot)."""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

REPEATS = 7


@dataclass(frozen=True)
class Floors:
    bytes_per_second: float  # of streaming reads from a set as large as the weights
    macs_per_second: float  # int8; 0: unknown


def measure(threads: int, set_bytes: int) -> Floors | None:
    """Medians of REPEATS runs; None where there is no C++ compiler."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "probe.so"
        source = Path(__file__).with_name("probe.cpp")
        command = [
            os.environ.get("CXX", "c++"),
            "-O3",
            "-march=native",
            "-std=c++17",
            "-shared",
            "-fPIC",
            "-pthread",
        ]
        try:
            subprocess.run([*command, str(source), "-o", str(library)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        probe = ctypes.CDLL(str(library))
    probe.read_bandwidth.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
    probe.int8_peak.argtypes = [ctypes.c_int, ctypes.c_int64]
    probe.read_bandwidth.restype = probe.int8_peak.restype = ctypes.c_double
    data = np.ones(set_bytes // 8, np.uint64)  # ones: every page is real, none is the shared zero page
    passes = max(1, int(1e9 // data.nbytes))
    return Floors(
        statistics.median(
            probe.read_bandwidth(data.ctypes.data, data.size, threads, passes) for _ in range(REPEATS)
        ),
        statistics.median(probe.int8_peak(threads, 10_000_000) for _ in range(REPEATS)),
    )
