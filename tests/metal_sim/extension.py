"""The Python extension built with the Metal device, over the fake Metal: MUSER_METAL_SIM=ON.

``package()`` is a folder to put first on PYTHONPATH: muser as in src/, with that extension. It loads the fake Metal by
itself, so the whole suite runs there with device="metal".
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from native_tools import tool

from . import build

ROOT = build.HERE.parent.parent
BUILD = ROOT / "build" / "metal_sim_extension"
SHIPPED = "muse-tiny-Q4_K_M.gguf"


def package(tiny: Path | None = None) -> Path:
    """Configures and builds what changed. ``tiny`` stands in for the model inside the package.
    Raises subprocess.CalledProcessError."""
    fake, runtime = build.fake_metal_library(), build.runtime_library()
    links = f"-Wl,--no-as-needed {fake} {runtime} -lBlocksRuntime -Wl,-rpath,{fake.parent}:{runtime.parent}"
    launcher = shutil.which("ccache")
    options = ["-DMUSER_METAL_SIM=ON", f"-DCMAKE_MODULE_LINKER_FLAGS={links}", f"-DPython_EXECUTABLE={sys.executable}"]
    options += ["-DCMAKE_OBJCXX_COMPILER=clang++-19", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    options += [f"-DCMAKE_{language}_COMPILER_LAUNCHER={launcher}" for language in ("CXX", "OBJCXX") if launcher]
    run([tool("cmake"), "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", *options])
    run([tool("cmake"), "--build", str(BUILD)])
    home = BUILD / ("package" if tiny is None else "package_small")
    shutil.rmtree(home, ignore_errors=True)
    (home / "muser" / "data").mkdir(parents=True)
    shown = {path.name: path for path in (ROOT / "src" / "muser").iterdir() if path.suffix != ".so" and path.name != "data"}
    shown |= {path.name: path for path in BUILD.glob("_muser*.so")}
    shown |= {f"data/{path.name}": path for path in (ROOT / "src" / "muser" / "data").iterdir()}
    if tiny is not None:
        shown["data/" + SHIPPED] = tiny
    for name, path in shown.items():
        (home / "muser" / name).symlink_to(path)
    return home


def environment(tiny: Path | None = None, **settings: int) -> dict[str, str]:
    """For a process that imports muser from ``package(tiny)``; ``settings`` are those of fake/settings.h."""
    path = os.pathsep.join([str(package(tiny)), str(ROOT / "tests")])
    chosen = {f"MUSER_METAL_SIM_{name.upper()}": str(value) for name, value in settings.items()}
    return {**os.environ, "PYTHONPATH": path, "MUSER_METAL_SIM_PYTHON": sys.executable, **chosen}


def run(command: list[str]) -> None:
    result = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode:
        raise subprocess.CalledProcessError(result.returncode, command[:3], result.stdout[-8000:])
