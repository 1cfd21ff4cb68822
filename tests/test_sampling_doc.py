"""docs/sampling.md is true: it names every parameter with its default, and its examples run."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

from muser import SamplingParams
from muser._chain import SAMPLERS

PAGE = (Path(__file__).parent.parent / "docs" / "sampling.md").read_text()


def test_every_parameter_is_there_with_its_default():
    named = {name: ast.literal_eval(default) for name, default in re.findall(r"^\| `(\w+)` \| `(.+?)` \|", PAGE, re.MULTILINE)}
    defaults = {field.name: field.default for field in dataclasses.fields(SamplingParams)}
    first_of_another_kind = list(defaults).index("max_tokens")
    sampling = set(list(defaults)[:first_of_another_kind]) - {"seed", "samplers", "logits_processors"}
    assert named == {name: defaults[name] for name in sampling}
    for name in ("seed", "samplers", "logits_processors"):
        assert f"`{name}`" in PAGE


def test_the_order_is_the_default():
    order = re.search(r"llama\.cpp's order: (.*?)\.\n6\.", PAGE, re.DOTALL)
    assert order and tuple(re.findall(r"`(\w+)`", order[1])) == SAMPLERS == SamplingParams().samplers


def test_examples_run():
    namespace: dict[str, object] = {}
    for n, code in enumerate(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)):
        exec(compile(code, f"docs/sampling.md, block {n}", "exec"), namespace)
