"""Reports name instructions as {library+0x12}; here they become file and line of the .metal source."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache

_PLACE = re.compile(r"\{(\S+)\+(0x[0-9a-f]+)\}")


def readable(report: str) -> str:
    return _PLACE.sub(lambda match: _line(match.group(1), match.group(2)), report)


@cache
def _line(library: str, offset: str) -> str:
    """The innermost frame that is not of the stand-in: what the kernel's author wrote."""
    tool = shutil.which("llvm-symbolizer-19") or shutil.which("addr2line")
    if not tool:
        return f"{library}+{offset}"
    name = tool.rsplit("/", 1)[-1]
    flags = ["--inlines", "--output-style=GNU", "-e"] if name.startswith("llvm") else ["-i", "-e"]
    result = subprocess.run([tool, *flags, library, offset], check=False, capture_output=True, text=True)
    frames = [line.split(" (")[0] for line in result.stdout.splitlines() if ":" in line]
    own = [frame for frame in frames if "/metal_sim/msl/" not in frame and not frame.startswith("??")]
    return (own or frames or [f"{library}+{offset}"])[0]
