"""``muser generate`` and ``muser info``."""

from __future__ import annotations

import io

import pytest

import muser
from muser.cli import main

PROMPT = "Once upon a time"


def test_generate_equals_the_library(capsys):
    assert main(["generate", PROMPT, "--max-tokens", "12", "--seed", "3", "--top-k", "20", "--context", "256"]) == 0
    with muser.Model.tiny(context=256, slots=1) as model:
        expected = model.generate(PROMPT, max_tokens=12, seed=3, top_k=20)
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
