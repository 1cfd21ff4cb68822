"""The stub headers against Apple's, as pyobjc knows them: values of enumerations, and selectors.

PyPI's pyobjc-framework-Metal is for macOS; its wheel is downloaded and only read.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADERS = sorted((HERE / "fake" / "include" / "Metal").glob("*.h"))
WHEEL = "pyobjc-framework-Metal==12.2.2"
_PLATFORM = ["--platform", "macosx_11_0_universal2", "--python-version", "3.11", "--only-binary=:all:", "--no-deps"]
# Selectors of Apple's documentation that pyobjc has no word of, because it needs to know nothing special of them.
DOCUMENTED = {"setConstantValue:type:atIndex:"}


@dataclass
class Apple:
    values: dict[str, int]
    text: bytes  # of the metadata and of the compiled protocols: selectors are in it as words

    def has_selector(self, selector: str) -> bool:
        return re.search(rb"(?<![\w:])" + re.escape(selector.encode()) + rb"(?![\w:])", self.text) is not None


def download(folder: Path) -> Apple:
    """Raises subprocess.CalledProcessError where PyPI is out of reach."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", *_PLATFORM]
    subprocess.run([*command, "--dest", str(folder), WHEEL], check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("pyobjc*.whl"))) as wheel:
        metadata = wheel.read("Metal/_metadata.py")
        binaries = [wheel.read(name) for name in wheel.namelist() if name.endswith(".so")]
    values = {name: int(value) for name, value in re.findall(r"\b(MTL\w+)@(-?\d+)", metadata.decode())}
    return Apple(values, metadata + b"\n".join(binaries))


def enumerators() -> dict[str, int]:
    """Every name in an enumeration of the stub headers, and its value."""
    found = {}
    for header in HEADERS:
        for body in re.findall(r"NS_(?:ENUM|OPTIONS)\([^)]*\)\s*\{([^}]*)\}", header.read_text()):
            for name, value in re.findall(r"(\w+)\s*=\s*([^,\n]+)", body):
                found[name] = int(eval(value, {"__builtins__": {}}))
    return found


def selectors() -> set[str]:
    """Of every method that the Metal headers declare."""
    found = set()
    for header in HEADERS:
        text = re.sub(r"//[^\n]*", "", header.read_text())
        for declaration in re.findall(r"^\s*[-+] ?\(([^;]*);", text, re.MULTILINE):
            plain = re.sub(r"\s*API_AVAILABLE_MACOS\([^)]*\)|\s*NS_\w+", "", declaration)
            while "(" in plain:  # types, of blocks too
                plain, changed = re.subn(r"\([^()]*\)", " ", plain)
                if not changed:
                    break
            plain = plain.split(")", 1)[1]
            parts = re.findall(r"(\w+)\s*:", plain)
            found.add("".join(f"{part}:" for part in parts) if parts else re.findall(r"\w+", plain)[0])
    return found
