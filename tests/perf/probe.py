"""The floors of a machine: streaming-read bandwidth and int8 multiply-adds a second (probe.cpp, compiled on
the spot)."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

READ_BYTES, PEAK_ROUNDS = 2e9, 30_000_000  # of one sample: about 50 ms each


@dataclass(frozen=True)
class Floors:
    bytes_per_second: float  # of streaming reads from a set as large as the weights
    macs_per_second: float  # int8; 0: unknown


class Probe:
    """Sampled between the runs that it is compared with: a floor from another minute is another machine's."""

    def __init__(self, threads: int, set_bytes: int) -> None:
        self.threads = threads
        self.data = np.ones(
            set_bytes // 8, np.uint64
        )  # ones: every page is real, none is the shared zero page
        self.reads: list[float] = []
        self.macs: list[float] = []
        self.library = compiled()

    def sample(self) -> None:
        if self.library:
            passes = max(1, int(READ_BYTES // self.data.nbytes))
            data = self.data.ctypes.data
            self.reads.append(self.library.read_bandwidth(data, self.data.size, self.threads, passes))
            self.macs.append(self.library.int8_peak(self.threads, PEAK_ROUNDS))

    def floors(self) -> Floors | None:
        """The best samples: what else ran at the time can only have made them smaller. None where there is no
        C++ compiler."""
        return Floors(max(self.reads), max(self.macs)) if self.reads else None


def compiled() -> ctypes.CDLL | None:
    source = Path(__file__).with_name("probe.cpp")
    flags = ["-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-pthread"]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "probe.so"
        command = [os.environ.get("CXX", "c++"), *flags, str(source), "-o", str(target)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        library = ctypes.CDLL(str(target))
    library.read_bandwidth.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
    library.int8_peak.argtypes = [ctypes.c_int, ctypes.c_int64]
    library.read_bandwidth.restype = library.int8_peak.restype = ctypes.c_double
    return library
