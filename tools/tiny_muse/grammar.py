"""Text templates: ``[one|another]`` picks an alternative (they nest), ``{name}`` puts a slot in.

Everything the corpus says is written with these (text/*.txt). A slot's value may hold a template itself. A template
is parsed once; filling it costs a walk.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

TEXT = Path(__file__).parent / "text"
Part = str | tuple[str, ...] | list["Template"]  # literal | ("slot", name) | alternatives


class Template:
    __slots__ = ("parts",)

    def __init__(self, parts: list) -> None:
        self.parts = parts

    def fill(self, slots: Mapping[str, str], rng: random.Random, out: list[str]) -> None:
        for part in self.parts:
            if type(part) is str:
                out.append(part)
            elif type(part) is tuple:
                value = slots[part[0]]
                if "[" in value or "{" in value:
                    parse(value).fill(slots, rng, out)
                else:
                    out.append(value)
            else:
                part[int(rng.random() * len(part))].fill(slots, rng, out)


@cache
def parse(text: str) -> Template:
    template, end = _sequence(text, 0, "")
    if end != len(text):
        raise ValueError(f"unbalanced ] at {end}: {text!r}")
    return template


def _sequence(text: str, i: int, until: str) -> tuple[Template, int]:
    parts: list = []
    start = i
    while i < len(text) and text[i] not in until:
        if text[i] == "[":
            parts.append(text[start:i])
            alternatives = []
            i += 1
            while True:
                alternative, i = _sequence(text, i, "|]")
                alternatives.append(alternative)
                if i >= len(text):
                    raise ValueError(f"unbalanced [: {text!r}")
                i += 1
                if text[i - 1] == "]":
                    break
            parts.append(alternatives)
            start = i
        elif text[i] == "{":
            parts.append(text[start:i])
            close = text.index("}", i)
            parts.append((text[i + 1 : close],))
            i = start = close + 1
        elif text[i] == "]":
            break
        else:
            i += 1
    parts.append(text[start:i])
    return Template([part for part in parts if part]), i


def fill(text: str, slots: Mapping[str, str], rng: random.Random) -> str:
    out: list[str] = []
    parse(text).fill(slots, rng, out)
    return "".join(out)


def pick(text: str, rng: random.Random) -> str:
    """A template without slots."""
    return fill(text, {}, rng)


def a(noun: str) -> str:
    """With its article. ``unicorn`` and ``hour`` do not occur."""
    return ("an " if noun[0].lower() in "aeiou" else "a ") + noun


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def lines(name: str) -> list[str]:
    """The lines of text/NAME.txt, without comments (``#`` in front) and empty ones."""
    rows = (TEXT / f"{name}.txt").read_text().splitlines()
    return [row for row in rows if row.strip() and not row.startswith("#")]


def blocks(name: str) -> list[tuple[str, list[str]]]:
    """text/NAME.txt as (head, rows): a head is a line that begins with ``== ``."""
    out: list[tuple[str, list[str]]] = []
    for row in lines(name):
        if row.startswith("== "):
            out.append((row[3:], []))
        else:
            out[-1][1].append(row)
    return out


def tidy(text: str) -> str:
    return re.sub(r" +", " ", text).replace(" \n", "\n").replace("\n ", "\n").strip()
