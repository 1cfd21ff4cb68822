"""``muser generate`` and ``muser info``."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import muser
from muser.cli import main

PROMPT = "Once upon a time"


def test_generate_equals_the_library(capsys):
    assert main(["generate", PROMPT, "--max-tokens", "12", "--seed", "3", "--top-k", "20", "--context", "256"]) == 0
    with muser.Model.tiny(context=256, slots=1) as model:
        expected = model.generate(PROMPT, max_tokens=12, seed=3, top_k=20)
    assert capsys.readouterr() == (expected.text + "\n", "")


def test_generate_stops_at_strings(capsys):
    assert main(["generate", PROMPT, "--temperature", "0", "--stop", ".", "--stop", "!", "--max-tokens", "60"]) == 0
    with muser.Model.tiny(slots=1) as model:
        expected = model.generate(PROMPT, temperature=0, stop=[".", "!"], max_tokens=60)
    assert expected.finish_reason == "stop"
    assert capsys.readouterr() == (expected.text + "\n", "")


def test_generate_from_stdin_with_stats(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("<|start|>user<|message|>Hello!<|eot|><|start|>assistant to=user<|message|>"))
    assert main(["generate", "-", "--parse-special", "--temperature", "0", "--stats", "--seed", "9", "--threads", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.strip()
    assert " tokens, eos, " in err and err.endswith("seed 9\n")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--temperature", "-1"], "temperature"),
        (["--max-tokens", "-1"], "max_tokens"),
        (["--model", "/does/not/exist.gguf"], "exist.gguf"),
        (["--threads", "0"], "threads"),
    ],
)
def test_generate_says_what_is_wrong_in_one_line(arguments, named, capsys):
    assert main(["generate", PROMPT, *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert named in err and err.count("\n") == 1


def test_info(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    assert muser.__version__ in out
    assert str(muser.system_info()["cpu"]) in out


def shell(redirected: str) -> subprocess.CompletedProcess:
    """The command as a shell runs it, with redirections."""
    source = str(Path(muser.__file__).parent.parent)
    return subprocess.run(
        ["sh", "-c", f'"$PYTHON" -m muser {redirected}'], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": source, "PYTHON": sys.executable, "PYTHONIOENCODING": "utf-8:strict",
             "PYTHONUNBUFFERED": ""},
    )  # fmt: skip


@pytest.mark.parametrize(
    "redirected, named",
    [
        ("info >/dev/full", "No space left"),
        ("--help >/dev/full", "No space left"),
        ("info >&-", "stdout is closed"),
        ("generate hi --max-tokens 2 >/dev/full", "No space left"),
        ("generate hi --max-tokens 2 >&-", "stdout is closed"),
        ("generate - --max-tokens 2 <&-", "stdin is closed"),
        ("generate - --max-tokens 2 <bin", "stdin cannot be read"),
    ],
)
def test_streams_that_are_full_or_closed_are_one_line(redirected, named, tmp_path):
    binary = tmp_path / "bin"
    binary.write_bytes(b"\xff\xfe")
    done = shell(redirected.replace("<bin", f"<{binary}"))
    assert done.returncode == 1
    assert named in done.stderr and done.stderr.startswith("muser: ") and done.stderr.count("\n") == 1


def test_without_any_stream_there_is_still_an_exit_code():
    done = shell("info >&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    done = shell("info >/dev/full 2>/dev/full")
    assert done.returncode == 1


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"muser {muser.__version__}\n"
