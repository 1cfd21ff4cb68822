"""The C++ tests: each executable of tests/cpp is a case here, with its output when it fails.

All of them run plainly; those of csrc/core and csrc/sched, where threads meet, also under ThreadSanitizer and under
AddressSanitizer with UndefinedBehaviorSanitizer. Builds are kept under build/ (and in ccache where there is one).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from native_tools import missing, tool

ROOT = Path(__file__).resolve().parent.parent
ALL = sorted(path.stem for path in (ROOT / "tests" / "cpp").glob("test_*.cpp"))
# One list of them, in CMakeLists.txt: the tests that link core and sched alone.
BASE = re.search(r"set\(MUSER_BASE_TESTS ([^)]*)\)", (ROOT / "CMakeLists.txt").read_text()).group(1).split()

CASES = [("plain", name) for name in ALL]
CASES += [(sanitizer, name) for sanitizer in ("thread", "address,undefined") for name in BASE]


def run(command: list[str | Path], timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
    )


def configure(flavour: str) -> Path:
    build = ROOT / "build" / f"cpp-{flavour.replace(',', '-')}"
    options = [f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", "-DMUSER_EXTENSION=OFF", "-DMUSER_TESTS=ON", "-DMUSER_WERROR=ON"]
    options += [f"-DMUSER_SANITIZE={'' if flavour == 'plain' else flavour}"]
    if ccache := shutil.which("ccache"):
        options += [f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}"]
    result = run([tool("cmake"), "-S", ROOT, "-B", build, "-G", "Ninja", *options], timeout=120)
    if result.returncode and re.search(r"Could not find.*doctest", result.stdout, re.DOTALL):
        missing("doctest is not installed")
    assert result.returncode == 0, result.stdout
    return build


@pytest.fixture(scope="module")
def built() -> Callable[[str], Path]:
    """``built("plain")``: the folder of a flavour, everything in it built as far as it compiles."""
    folders: dict[str, Path] = {}

    def get(flavour: str) -> Path:
        if flavour not in folders:
            folder = configure(flavour)
            target = "all" if flavour == "plain" else "concurrency_tests"
            run([tool("cmake"), "--build", folder, "--target", target, "--", "-k", "0"], timeout=1400)
            folders[flavour] = folder
        return folders[flavour]

    return get


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("flavour", "name"), CASES)
def test_cpp(built: Callable[[str], Path], flavour: str, name: str) -> None:
    folder = built(flavour)
    result = run([tool("cmake"), "--build", folder, "--target", name], timeout=1400)
    assert result.returncode == 0, result.stdout[-20000:]
    result = run([folder / name], timeout=240)
    if "unexpected memory mapping" in result.stdout and shutil.which("setarch"):
        # ThreadSanitizer cannot place its shadow on kernels that randomize addresses widely.
        result = run(["setarch", "-R", folder / name], timeout=240)
    assert result.returncode == 0, result.stdout[-20000:]


@pytest.mark.timeout(1500)
def test_code_of_a_cpu_level_is_its_own(built: Callable[[str], Path]) -> None:
    """A function shared by several objects is kept once. Compiled for AVX, it would break the machines without."""
    folder = built("plain")
    result = run([tool("cmake"), "--build", folder, "--target", "muser_core"], timeout=1400)
    assert result.returncode == 0, result.stdout[-20000:]
    listing = run([tool("nm"), "--defined-only", "--demangle", folder / "libmuser_core.a"], timeout=60).stdout
    members = dict(member.split(":\n", 1) for member in listing.strip().split("\n\n") if ":\n" in member)
    levels = {name: symbols for name, symbols in members.items() if re.search(r"_(avx2|avxvnni|avx512|amx|neon|i8mm)\.cpp", name)}
    assert levels
    for name, symbols in levels.items():
        shared = [line for line in symbols.splitlines() if re.match(r"\S* [WVu] (?!DW\.ref)", line)]
        assert not shared, f"{name}: {shared}"
