"""Objective-C++ for arm64 macOS on Linux: PyPI's ziglang compiles and links it against the stub headers and macos/*.tbd.

That proves the target's ABI, and that every class and function that the host uses is in the list of what is expected of
the system. C++ symbols stay open: the rest of the library is not built here.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from . import build
from .mach_o import undefined

HERE = Path(__file__).resolve().parent
_STUBS = HERE / "macos"
_TARGET = ["-target", "aarch64-macos.14.0"]
# -Wunguarded-availability is an error as in the project's own macOS build: macOS 14 is the oldest that it runs on.
_COMPILE = ["-std=c++20", "-fobjc-arc", "-fblocks", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
_COMPILE += ["-Werror=unguarded-availability", f"-I{HERE / 'fake' / 'include'}"]
_LINK = ["-shared", "-nostdlib++", "-Wl,-undefined,dynamic_lookup", f"-F{_STUBS}", str(_STUBS / "libobjc.tbd")]
_LINK += [flag for name in ("Foundation", "CoreFoundation", "Metal") for flag in ("-framework", name)]


def _zig(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "ziglang", "c++", *_TARGET, *arguments]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        raise build.CompileError(result.stderr.strip())


def library(sources: Iterable[Path], flags: Iterable[str] = ()) -> Path:
    """All sources in one .dylib. Raises build.CompileError."""
    paths, extra = list(sources), list(flags)
    parts = [p.read_bytes() for p in [*paths, *sorted((HERE / "fake" / "include").rglob("*.h")), *_STUBS.rglob("*.tbd")]]

    def make(out: Path) -> None:
        objects = []
        for path in paths:
            objects.append(str(out.with_suffix(f".{path.stem}.o")))
            _zig([*_COMPILE, *extra, "-c", str(path), "-o", objects[-1]])
        _zig([*objects, *_LINK, "-o", str(out)])

    return build.kept("libhost.dylib", ["macos", *parts, *extra], make, ())


def unexpected(dylib: Path) -> list[str]:
    """Symbols of no stub library and not of the C library, C++ ones aside."""
    cxx = ("__Z", "___cxa_", "___gxx_personality", "__Unwind_", "___clang_call_terminate", "___isPlatformVersionAtLeast")
    known = _symbols(_STUBS.rglob("*.tbd")) | _symbols(_zig_folder().rglob("libSystem.tbd")) | {"dyld_stub_binder"}
    return sorted(name for name in undefined(dylib) - known if not name.startswith(cxx))


def _zig_folder() -> Path:
    spec = importlib.util.find_spec("ziglang")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _symbols(stubs: Iterable[Path]) -> set[str]:
    words = set(re.findall(r"[\w$]+", "".join(path.read_text() for path in stubs)))
    return words | {f"_OBJC_CLASS_$_{word}" for word in words}
