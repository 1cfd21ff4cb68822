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


def package() -> Path:
    """Configures and builds what changed. Raises subprocess.CalledProcessError."""
    fake, runtime = build.fake_metal_library(), build.runtime_library()
    links = f"-Wl,--no-as-needed {fake} {runtime} -lBlocksRuntime -Wl,-rpath,{fake.parent}:{runtime.parent}"
    launcher = shutil.which("ccache")
    options = ["-DMUSER_METAL_SIM=ON", f"-DCMAKE_MODULE_LINKER_FLAGS={links}", f"-DPython_EXECUTABLE={sys.executable}"]
    options += ["-DCMAKE_OBJCXX_COMPILER=clang++-19", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    options += [f"-DCMAKE_{language}_COMPILER_LAUNCHER={launcher}" for language in ("CXX", "OBJCXX") if launcher]
    run([tool("cmake"), "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", *options])
    run([tool("cmake"), "--build", str(BUILD)])
    home = BUILD / "package"
    shutil.rmtree(home, ignore_errors=True)
    (home / "muser").mkdir(parents=True)
    for path in (ROOT / "src" / "muser").iterdir():
        if not path.name.startswith("_muser.") or path.suffix == ".pyi":
            (home / "muser" / path.name).symlink_to(path)
    for extension in BUILD.glob("_muser*.so"):
        (home / "muser" / extension.name).symlink_to(extension)
    return home


def environment(**settings: int) -> dict[str, str]:
    """For a process that imports muser from ``package()``; ``settings`` are those of fake/settings.h."""
    path = os.pathsep.join([str(package()), str(ROOT / "tests")])
    chosen = {f"MUSER_METAL_SIM_{name.upper()}": str(value) for name, value in settings.items()}
    return {**os.environ, "PYTHONPATH": path, "MUSER_METAL_SIM_PYTHON": sys.executable, **chosen}


def run(command: list[str]) -> None:
    result = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode:
        raise subprocess.CalledProcessError(result.returncode, command[:3], result.stdout[-8000:])
