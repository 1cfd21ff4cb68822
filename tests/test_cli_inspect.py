"""``muser inspect``: what a person sees, what a program reads, and how it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from raw_gguf import ARRAY, F32, I32, STRING, T_F32, U32, Raw
from toy import write_toy

from muser._muser import GgufFile
from muser.cli import main

COMMAND = [sys.executable, "-m", "muser"]


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.gguf"
    write_toy(path, "muse-glimmer", "Q8_0", chat_template="{{ messages }}\n" * 100)
    return path


def test_text_shows_metadata_tensors_and_totals(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(toy)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert f"file {toy}" in lines and "version 3, alignment 32" in lines
    assert 'general.architecture string "muse-glimmer"' in lines
    assert "muse-glimmer.attention.layer_norm_rms_epsilon f32 1e-05" in lines
    assert "muse-glimmer.attention.sliding_window_pattern bool[4] [True, True, True, False]" in lines
    [tokens] = [line for line in lines if line.startswith("tokenizer.ggml.tokens ")]
    assert tokens.startswith('tokenizer.ggml.tokens string[304] ["!", ') and tokens.endswith(", ...]")
    [template] = [line for line in lines if line.startswith("tokenizer.chat_template")]
    assert template.endswith("characters)") and "{{ messages }}\\n" in template
    for name, kind, shape, offset, nbytes in GgufFile(toy).tensors():
        extents = " x ".join(map(str, shape))
        assert f"{name} {kind} {extents} {nbytes:,} B at {offset:,}" in lines
    assert any(line.startswith("Q8_0 34 tensors") for line in lines)
    assert max(map(len, out.splitlines())) < 250


def test_json_is_complete(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--json", str(toy)]) == 0
    shown = json.loads(capsys.readouterr().out)
    file = GgufFile(toy)
    assert shown["files"] == [str(toy)] and (shown["version"], shown["alignment"]) == (3, 32)
    assert shown["metadata"] == file.metadata()
    keys = ("name", "type", "shape", "offset", "nbytes")
    assert [tuple(row[key] for key in keys) for row in shown["tensors"]] == [
        (name, kind, list(shape), offset, nbytes) for name, kind, shape, offset, nbytes in file.tensors()
    ]
    assert sum(total["nbytes"] for total in shown["totals"].values()) == sum(row[4] for row in file.tensors())


def test_odd_values_are_shown_without_harm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.gguf"
    raw = (
        Raw()
        .key("bytes", STRING, b"\xff\xfe\x1b[31m")
        .key("nan", F32, float("nan"))
        .key("evil\x1b[2J", U32, 1)
    )
    raw.key("nest", ARRAY, (ARRAY, [(I32, list(range(50)))] * 40)).tensor("w\x1b[1m", T_F32, [2], bytes(8))
    path.write_bytes(raw.bytes())
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and r"evil\x1b[2J" in out and r"w\x1b[1m" in out
    assert max(map(len, out.splitlines())) < 1000
    assert main(["inspect", "--json", str(path)]) == 0
    metadata = json.loads(capsys.readouterr().out)["metadata"]
    assert metadata["nan"] == "nan" and metadata["bytes"].startswith("\\xff\\xfe")


@pytest.mark.parametrize("content", [None, b"", b"<html>", Raw(version=9).bytes()])
def test_errors_are_one_line_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    path = tmp_path / "line\nbreak.gguf"
    if content is not None:
        path.write_bytes(content)
    assert main(["inspect", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("muser: ") and err.count("\n") == 1 and "break.gguf" in err


def test_wrong_arguments_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["inspect"], ["nonsense"]):
        with pytest.raises(SystemExit) as exit_code:
            main(arguments)
        assert exit_code.value.code == 2
    assert "usage: muser" in capsys.readouterr().err


def test_the_module_runs_and_a_reader_that_leaves_is_no_error(toy: Path) -> None:
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [*COMMAND, "inspect", "--json", str(toy)], stdout=write_end, stderr=subprocess.PIPE
    )
    os.close(write_end)
    os.close(read_end)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    whole = subprocess.run([*COMMAND, "inspect", str(toy)], capture_output=True, timeout=60, check=True)
    assert b"totals by type" in whole.stdout and whole.stderr == b""


def test_any_file_name_prints_on_an_ascii_terminal(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode("naïve-\udcff.gguf".encode("utf-8", "surrogateescape"))
    path.write_bytes(Raw().key("schlüssel", STRING, "ü").bytes())
    for encoding in ("ascii", "utf-8"):
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run(
            [*COMMAND, "inspect", str(path)], capture_output=True, timeout=60, env=environment, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"") and b"schl" in done.stdout
        path_missing = str(path) + "x"
        done = subprocess.run(
            [*COMMAND, "inspect", path_missing], capture_output=True, timeout=60, env=environment, check=False
        )
        assert done.returncode == 1 and done.stderr.count(b"\n") == 1
