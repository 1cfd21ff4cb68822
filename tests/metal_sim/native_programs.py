"""Programs of native_tests/ for this processor or, cross-compiled, for aarch64."""

from __future__ import annotations

import tempfile
from pathlib import Path

from . import build

HERE = build.HERE
_AARCH64 = ["--target=aarch64-linux-gnu", "--sysroot=/", "-march=armv8.2-a+fp16+bf16"]


def _program(name: str, aarch64: bool, sources: list[tuple[Path, list[str]]]) -> Path:
    target = _AARCH64 if aarch64 else []

    def make(out: Path) -> None:
        objects: list[Path] = []
        for path, flags in sources:
            objects.append(out.parent / f"{path.name}.o")
            build.clang([*target, "-O1", *flags, "-c", path, "-o", objects[-1]])
        build.clang([*target, "-static", "-pthread", *objects, "-o", out])

    parts = [path.read_bytes() for path, _ in sources]
    return build.kept(name, [name, "aarch64" if aarch64 else "native", *parts], make, build.OF_EVERYTHING)


def run_norm(aarch64: bool) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        kernel = Path(folder) / "norm.cpp"
        kernel.write_text(build.translated(HERE / "kernels" / "norm.metal"))
        sources = [(path, ["-std=c++20"]) for path in sorted((HERE / "runtime").glob("*.cpp"))]
        sources += [(HERE / "native_tests" / "run_norm.cpp", ["-std=c++20"]), (kernel, build.kernel_flags("check"))]
        return _program("run_norm", aarch64, sources)


def messages(aarch64: bool) -> Path:
    objc = [*build.OBJC, "-std=c++20"]
    sources = [(path, ["-std=c++20"]) for path in sorted((HERE / "objc").glob("*.cpp"))]
    sources += [(HERE / "fake" / "foundation.mm", [*objc, "-fno-objc-arc"])]
    sources += [(HERE / "runtime" / "reports.cpp", ["-std=c++20"])]
    sources += [(HERE / "native_tests" / "messages.mm", [*objc, "-fobjc-arc"])]
    return _program("messages", aarch64, sources)
