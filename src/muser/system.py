"""What this machine and this installation are: the first thing to put into a bug report."""

from __future__ import annotations

import os
import platform
import sys

from muser import _muser


def system_info() -> dict[str, object]:
    """Versions, the machine, and one line about the CPU: its name, its features, and the kernels chosen for it."""
    import muser

    return {
        "muser": muser.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu": _muser.cpu_features(),
        "cores": usable_cores(),
        "memory_bytes": _memory_bytes(),
        "devices": ["cpu"],
    }


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _memory_bytes() -> int | None:
    if sys.platform == "win32":
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
