"""The aarch64 build: everything compiles with the products of NEON and i8mm, and the kernel tests pass under qemu.

The kernel tests compare every level with the portable one bit by bit, and the sampler's tokens have one known hash, so
passing them under emulation says that a real aarch64 machine gives the same bits. It says nothing about speed.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from native_tools import tool

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "aarch64"
KERNEL_TESTS = ("test_matmul", "test_bounds", "test_cpu_ops", "test_cpu_attention", "test_sampler")


@pytest.fixture(scope="module")
def build() -> Path:
    compiler, cmake, ninja = tool("aarch64-linux-gnu-g++"), tool("cmake"), tool("ninja")
    launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={cache}"] if (cache := shutil.which("ccache")) else []
    subprocess.run(
        [cmake, "-S", ROOT, "-B", BUILD, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", *launcher]
        + ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={compiler}"]
        + ["-DCMAKE_EXE_LINKER_FLAGS=-static", "-DMUSER_EXTENSION=OFF", "-DMUSER_TESTS=ON", "-DMUSER_WERROR=ON"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run([cmake, "--build", BUILD, "--target", "muser_core", "test_level", *KERNEL_TESTS], check=True)
    return BUILD


def emulate(cpu: str, program: Path) -> str:
    command = [tool("qemu-aarch64"), "-cpu", cpu, str(program)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=800)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    return result.stdout


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", KERNEL_TESTS)
def test_kernels_under_emulation(build, name):
    emulate("max", build / name)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("cpu", "level"), [("max", "i8mm"), ("cortex-a76", "neon"), ("cortex-a57", "portable")])
def test_the_level_that_a_processor_gets(build, cpu, level):
    assert f"; level {level}\n" in emulate(cpu, build / "test_level")


@pytest.mark.timeout(900)
def test_products_without_the_matrix_product(build):
    """A processor with sdot alone: its level must be free of smmla."""
    emulate("cortex-a76", build / "test_matmul")
