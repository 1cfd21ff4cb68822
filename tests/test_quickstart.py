"""The main job, as a person runs it: four stories, and the table after them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import muser

ROOT = Path(__file__).parent.parent


def quickstart(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "quickstart.py"), *arguments], capture_output=True, text=True, timeout=100, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(muser.__file__).parent.parent)},
    )  # fmt: skip


def test_a_wrong_model_is_one_line():
    done = quickstart("--model", "/no/such/file")
    assert (done.returncode, done.stderr) == (1, "quickstart: /no/such/file: No such file or directory\n")


def test_four_stories_and_a_table():
    done = quickstart("--max-tokens", "60", "--seed", "3")
    assert (done.returncode, done.stderr) == (0, "")
    story = {n: " ".join(re.findall(rf"^{n} \| (.*)$", done.stdout, flags=re.MULTILINE)) for n in range(1, 5)}
    assert "turtle" in story[1] and "robot" in story[2] and "Lily" in story[3] and "Max" in story[4]
    tokens = [int(n) for n in re.findall(r"^ +[1-4] +(\d+) +[\d.]+  (?:eos|length)$", done.stdout, flags=re.MULTILINE)]
    assert len(tokens) == 4 and all(tokens)
    [total] = re.findall(r"^ +all +(\d+) +[\d.]+  in", done.stdout, flags=re.MULTILINE)
    assert int(total) == sum(tokens)
    passes = re.findall(r"^ +([1-4]) +(\d+) passes", done.stdout, flags=re.MULTILINE)
    rows = sum(int(width) * int(count) for width, count in passes)
    assert rows <= sum(tokens) <= rows + 4  # each story's first token comes from its prefill
