"""All figures of one model, on disk as JSON. Records of several short runs can be put together."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from typing_extensions import Self

from tests.perf.compare import Figures
from tests.perf.jobs import Job
from tests.perf.probe import Floors
from tests.perf.weights import Weights


@dataclass
class Result:
    job: Job
    figures: Figures
    floors: Floors | None = None


@dataclass
class Freeze:
    """A stream meets a long prompt of another caller. One figure a repeat."""

    side: str
    prompt: int  # tokens
    step: int  # tokens of the prompt that the side takes in one pass; 0: it decides itself
    gaps: list[float] = field(default_factory=list)  # s, the worst of the stream
    firsts: list[float] = field(default_factory=list)  # s, to the newcomer's first token


@dataclass
class Record:
    file: str
    model: tuple[str, str]  # general.basename, quantization
    cpu: str
    threads: int
    repeats: int
    weights: Weights
    versions: dict[str, dict[str, str]] = field(default_factory=dict)  # side -> what it says of itself
    load: list[float] = field(default_factory=list)  # average over a minute, after each part of the run
    results: list[Result] = field(default_factory=list)
    freezes: list[Freeze] = field(default_factory=list)

    @classmethod
    def from_json(cls, data: dict) -> Self:
        results = [
            Result(Job(**r["job"]), r["figures"], Floors(**r["floors"]) if r["floors"] else None)
            for r in data["results"]
        ]
        freezes = [Freeze(**f) for f in data["freezes"]]
        parsed = {"model": tuple(data["model"]), "weights": Weights(**data["weights"])}
        return cls(**{**data, **parsed, "results": results, "freezes": freezes})


def write(path: Path, records: Iterable[Record]) -> None:
    path.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n")


def read(paths: Iterable[Path]) -> list[Record]:
    """One record a file name, in the order of their first appearance; a job that was measured twice keeps its
    last figures."""
    merged: dict[str, Record] = {}
    for path in paths:
        for record in map(Record.from_json, json.loads(path.read_text())):
            into = merged.setdefault(record.file, record)
            if into is not record:
                _merge(into, record)
    return list(merged.values())


def _merge(into: Record, more: Record) -> None:
    if (into.cpu, into.threads) != (more.cpu, more.threads):
        raise SystemExit(f"{more.file}: records of different machines or thread counts")
    into.load += more.load
    into.versions |= more.versions
    into.repeats = min(into.repeats, more.repeats)
    into.results = list({r.job: r for r in (*into.results, *more.results)}.values())
    into.freezes = list({(f.side, f.step): f for f in (*into.freezes, *more.freezes)}.values())
