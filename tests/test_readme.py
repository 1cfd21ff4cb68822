"""The README is true: its Python blocks run, in order, and its commands exist."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from muser.cli import build_parser, main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one of them writes a file
    said = io.StringIO()
    namespace: dict[str, object] = {}
    with contextlib.redirect_stdout(said):
        for n, code in enumerate(blocks("python")):
            exec(compile(code, f"README.md, block {n}", "exec"), namespace)
    assert len(said.getvalue()) > 200


@pytest.mark.parametrize("command", [line for block in blocks("bash") for line in block.splitlines()])
def test_commands(command, capsys):
    program, *arguments = shlex.split(command)
    if program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    else:
        assert program == "muser"
        build_parser().parse_args(arguments)
        assert main(arguments) == 0
        assert capsys.readouterr().out.strip()


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
