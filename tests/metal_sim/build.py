"""Compiles translated kernels and the simulator's own libraries with clang, each once: results are kept by content.

The folder is build/metal_sim of the checkout, or MUSER_METAL_SIM_CACHE.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from .translate import MetalSyntaxError, Target, translate
from .translate.preprocess import CLANG, preprocess

HERE = Path(__file__).resolve().parent
_ROOT = HERE.parent.parent

# Warnings that a kernel must not have. Metal attributes and unused helpers of shared headers are no fault.
_WARNINGS = ["-Wall", "-Wextra", "-Wno-unknown-attributes", "-Wno-unused-function", "-Wno-unused-parameter"]
_WARNINGS += ["-Wno-sign-compare", "-Wno-unused-const-variable", "-Wno-pass-failed"]
# char is signed in Metal everywhere; half rounds at every operation, as on the GPU.
_KERNEL = [f"-I{HERE / 'msl'}", "-include", "metal.h", "-fsigned-char", "-fno-math-errno", "-fno-exceptions"]
_KERNEL += ["-Xclang", "-ffloat16-excess-precision=none"]
_RUN = ["-std=c++17", "-fPIC", "-shared", "-rtlib=compiler-rt", "-unwindlib=libgcc", *_KERNEL, *_WARNINGS]
_COMPILE = ["-O2", "-g1", "-fPIC", "-std=c++20", "-Wall", "-Wextra", "-Werror"]
_LINK = ["-shared", "-pthread"]
# Objective-C++ for the runtime in objc/, against the headers in fake/include.
OBJC = ["-fobjc-runtime=gnustep-2.0", "-fblocks", "-fconstant-string-class=NSConstantString", f"-I{HERE / 'fake' / 'include'}"]
OBJC += ["-Wno-unused-parameter"]
_NATIVE = ["-O3", "-march=native", "-DMSL_FAST"]

MODES = {
    # As fast as it gets, no memory checks; divergence and barriers are seen all the same.
    "fast": [*_NATIVE, "-ffp-contract=off"],
    # What Metal's default allows itself: contraction, reassociation, no NaN.
    "fast-math": [*_NATIVE, "-ffast-math"],
    # Every access of memory goes through the checker; forgotten initializers show as a pattern.
    "check": ["-O1", "-gline-tables-only", "-gdwarf-4", "-ffp-contract=off", "-fsanitize=thread,array-bounds,integer-divide-by-zero"]
    + ["-fno-sanitize-link-runtime", "-fno-vectorize", "-fno-slp-vectorize", "-ftrivial-auto-var-init=pattern"]
    + ["-mllvm", "-tsan-instrument-func-entry-exit=0", "-mllvm", "-tsan-instrument-atomics=0"],
}
_PTX = ["-target", "nvptx64-nvidia-cuda", "-march=sm_90", "-Xclang", "-target-feature", "-Xclang", "+ptx78", "-O3"]
_PTX += ["-S", "-std=c++17", "-DMSL_PTX", "-nostdinc", "-nogpulib", "-fno-rtti", "-fno-threadsafe-statics", *_KERNEL]
_PTX += ["-Wno-unknown-attributes", "-Wno-unused-command-line-argument"]
# Apple's compiler inlines everything; where clang does not, pointers lose their address space on the way.
_PTX += ["-mllvm", "-inline-threshold=1000000"]
_LINT = ["-std=c++14", "-fsyntax-only", "-DMSL_LINT", *_KERNEL, *_WARNINGS]
_LINT += ["-Werror", "-Wshadow"]


class CompileError(Exception):
    """What clang says about a translated kernel."""


def folder() -> Path:
    path = Path(os.environ.get("MUSER_METAL_SIM_CACHE") or _ROOT / "build" / "metal_sim")
    path.mkdir(parents=True, exist_ok=True)
    return path


@cache
def _own_text(folders: tuple[str, ...]) -> bytes:
    """What decides, besides its source, what a file becomes."""
    files = sorted(p for d in folders for p in (HERE / d).rglob("*") if p.is_file() and p.suffix != ".pyc")
    version = subprocess.run([CLANG, "--version"], check=True, capture_output=True).stdout
    return version + b"".join(p.read_bytes() for p in [*files, Path(__file__)])


OF_EVERYTHING = ("msl", "runtime", "translate", "fake", "objc")
_OF_KERNELS = OF_EVERYTHING[:3]
_OF_FAKE_METAL = ("runtime", "fake", "objc")


def kept(
    name: str, parts: Iterable[str | bytes], make: Callable[[Path], None], own: tuple[str, ...] = _OF_KERNELS
) -> Path:
    """The file that ``make`` writes, made once for these ``parts``. Safe among processes."""
    digest = hashlib.sha256(_own_text(own))
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    home = folder() / f"{Path(name).stem}-{digest.hexdigest()[:20]}"
    if not (home / name).exists():
        with tempfile.TemporaryDirectory(dir=folder()) as made:
            make(Path(made) / name)
            home.mkdir(exist_ok=True)
            os.replace(Path(made) / name, home / name)
    return home / name


def clang(arguments: list[str | Path]) -> None:
    result = subprocess.run([CLANG, *arguments], check=False, capture_output=True, text=True)
    if result.returncode:
        raise CompileError(result.stderr.strip())


def translated(path: Path, include: Path | None = None) -> str:
    return translate(preprocess(path, include), str(path)).text


def kernel_flags(mode: str) -> list[str]:
    """Of a translated file that is compiled by other means than ``kernel_library``."""
    return ["-std=c++17", *_KERNEL, *(flag for flag in MODES[mode] if flag != "-march=native")]


def host_names(path: Path, include: Path | None = None) -> list[str]:
    return translate(preprocess(path, include), str(path)).host_names


def ptx(path: Path, include: Path | None = None) -> Path:
    """Every kernel NAME of the file as an entry NAME_ptx for sm_90; msl/launch_ptx.h says how it is launched."""
    text = preprocess(path, include)

    def make(out: Path) -> None:
        cpp = out.with_suffix(".cpp")
        cpp.write_text(translate(text, str(path), Target.PTX).text)
        clang([*_PTX, cpp, "-o", out])

    return kept(f"{path.stem}.ptx", ["ptx", text, *_PTX], make)


def runtime_library() -> Path:
    """The runtime of kernels, as one shared library that they link to."""
    sources = sorted((HERE / "runtime").glob("*.cpp"))

    def make(out: Path) -> None:
        clang([*_COMPILE, *_LINK, f"-Wl,-soname,{out.name}", *sources, "-o", out])

    return kept("libmsl_runtime.so", ["runtime"], make, ("runtime",))


def _linked_to(library: Path) -> list[str]:
    return [str(library), f"-Wl,-rpath,{library.parent}"]


def fake_metal_library() -> Path:
    """Foundation, Metal and the Objective-C runtime, over the runtime of kernels."""
    runtime = runtime_library()

    def make(out: Path) -> None:
        objects = []
        for path in sorted([*(HERE / "fake").glob("*.mm"), *(HERE / "fake").glob("*.cpp"), *(HERE / "objc").glob("*.cpp")]):
            flags = [*_COMPILE, f'-DMSL_PYTHON="{sys.executable}"', f'-DMSL_SIMULATOR="{HERE}"']
            if path.suffix == ".mm":
                flags += [*OBJC, "-fno-objc-arc" if path.name == "foundation.mm" else "-fobjc-arc"]
            objects.append(out.with_suffix(f".{path.stem}{path.suffix[1:]}.o"))
            clang([*flags, "-c", path, "-o", objects[-1]])
        links = [*_linked_to(runtime), "-lBlocksRuntime", f"-Wl,-soname,{out.name}"]
        clang([*_LINK, *objects, *links, "-o", out])

    return kept("libfake_metal.so", ["fake metal", sys.executable], make, _OF_FAKE_METAL)


def host_library(sources: Iterable[Path], flags: Iterable[str] = ()) -> Path:
    """Objective-C++ host code, linked to the fake Metal."""
    fake = fake_metal_library()
    paths = list(sources)

    def make(out: Path) -> None:
        every = [*_COMPILE, "-O0", *_LINK, *OBJC, "-fobjc-arc", *flags]
        clang([*every, *paths, *_linked_to(fake), *_linked_to(runtime_library()), "-lBlocksRuntime", "-o", out])

    return kept("libhost.so", ["host", *(p.read_bytes() for p in paths), *flags], make, _OF_FAKE_METAL)


def kernel_library(path: Path, mode: str, include: Path | None = None) -> Path:
    """A .metal file as a shared library. Raises MetalSyntaxError or CompileError."""
    text = preprocess(path, include)

    def make(out: Path) -> None:
        cpp = out.with_suffix(".cpp")
        cpp.write_text(translate(text, str(path)).text)
        clang([*_RUN, *MODES[mode], cpp, *_linked_to(runtime_library()), "-o", out])

    return kept(f"{path.stem}-{mode}.so", [mode, text, *_RUN, *MODES[mode]], make)


def lint(path: Path, include: Path | None = None) -> None:
    """The subset's rules, C++14 and Metal's address spaces. Raises MetalSyntaxError or CompileError."""
    text = preprocess(path, include)

    def make(out: Path) -> None:
        cpp = out.with_suffix(".cpp")
        cpp.write_text(translate(text, str(path), Target.LINT).text)
        clang([*_LINT, cpp])
        out.write_text("passed")

    kept(f"{path.stem}-lint.txt", ["lint", text, *_LINT], make)


__all__ = [
    "MODES",
    "OF_EVERYTHING",
    "CompileError",
    "MetalSyntaxError",
    "clang",
    "fake_metal_library",
    "host_library",
    "host_names",
    "kept",
    "kernel_flags",
    "kernel_library",
    "lint",
    "ptx",
    "runtime_library",
    "translated",
]
