"""Macros and includes, through clang's preprocessor: the translator sees what they expand to.

Metal's own headers are left out here (stubs/ holds empty ones): the stand-in comes in front of the translated text.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from .errors import MetalSyntaxError

CLANG = "clang++-19"
STUBS = Path(__file__).resolve().parent.parent / "msl" / "stubs"
# What Apple's compiler defines for -std=metal3.1; nothing of the machine that the simulator runs on is defined.
MACROS = ["-undef", "-D__METAL__=1", "-D__METAL_VERSION__=310", "-D__METAL_MACOS__=1"]


def preprocess(path: Path, include: Path | None = None) -> str:
    """``path`` with its quoted includes, found beside it (or beside ``include``) as Apple's compiler finds them."""
    command = [CLANG, "-E", "-x", "c++", "-std=c++14", "-nostdinc", "-nostdinc++", "-Werror", "-Wno-pragma-once-outside-header", *MACROS]
    command += ["-isystem", str(STUBS), *(["-iquote", str(include)] if include else []), str(path)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        found = re.search(r"^(.+?):(\d+):\d+: (?:fatal )?error: (.*)", result.stderr, re.MULTILINE)
        if not found:
            raise MetalSyntaxError(result.stderr.strip())
        raise MetalSyntaxError(found.group(3), found.group(1), int(found.group(2)))
    return result.stdout
