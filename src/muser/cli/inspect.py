"""``muser inspect FILE``: the metadata and the tensor table of a GGUF file. Loads no model."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from muser import _checks as checks
from muser._muser import GgufFile
from muser.cli.output import emit, printable

SHOWN_ELEMENTS = 6  # of a long array
SHOWN_CHARACTERS = 100  # of a long string, e.g. a chat template


def add_parser(subcommands: Any) -> None:
    parser = subcommands.add_parser("inspect", help="print metadata and tensors of a GGUF file")
    parser.add_argument("file", help="a .gguf file, or the first part of a split one")
    parser.add_argument("--json", action="store_true", help="one JSON object; arrays are not abbreviated")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    file = GgufFile(checks.path(arguments.file, "file"))
    if arguments.json:
        emit(json.dumps(plain(as_json(file)), allow_nan=False))
    else:
        for line in as_text(file):
            emit(line)


def as_json(file: GgufFile) -> dict[str, Any]:
    """Everything that ``inspect`` knows, as Python values."""
    names = ("name", "type", "shape", "offset", "nbytes")
    return {
        "files": [printable(path) for path in file.files],
        "version": file.version,
        "alignment": file.alignment,
        "metadata": file.metadata(),
        "tensors": [dict(zip(names, tensor, strict=True)) for tensor in file.tensors()],
        "totals": totals(file),
    }


def plain(value: Any) -> Any:
    """The value with what JSON lacks made text: bytes (a string that is not UTF-8), infinities and NaN."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def totals(file: GgufFile) -> dict[str, dict[str, int]]:
    """Per tensor type, largest first: how many tensors, elements and bytes."""
    tensors, elements, nbytes = Counter[str](), Counter[str](), Counter[str]()
    for _, type_name, shape, _, size in file.tensors():
        count = 1
        for extent in shape:
            count *= extent
        tensors[type_name] += 1
        elements[type_name] += count
        nbytes[type_name] += size
    return {
        name: {"tensors": tensors[name], "elements": elements[name], "nbytes": size}
        for name, size in nbytes.most_common()
    }


def as_text(file: GgufFile) -> Iterable[str]:
    yield from (f"file       {printable(path)}" for path in file.files)
    yield f"version    {file.version}, alignment {file.alignment}"
    yield ""
    entries = file.entries()
    yield f"metadata: {len(entries)} keys"
    for key, type_name, count in entries:
        shown = type_name if count is None else f"{type_name}[{count}]"
        yield f"  {printable(key):<48} {shown:<16} {value_text(file.get(key, limit=SHOWN_ELEMENTS), type_name, count)}"
    yield ""
    tensors = file.tensors()
    yield f"tensors: {len(tensors)} (shape with the contiguous dimension first)"
    for name, type_name, shape, offset, nbytes in tensors:
        extents = " x ".join(str(extent) for extent in shape)
        yield f"  {printable(name):<48} {type_name:<7} {extents:<24} {nbytes:>14,} B at {offset:,}"
    yield ""
    yield "totals by type"
    for type_name, total in totals(file).items():
        yield (
            f"  {type_name:<7} {total['tensors']:>6} tensors {total['elements']:>18,} elements {total['nbytes']:>18,} B"
        )


def value_text(value: Any, type_name: str, count: int | None) -> str:
    """One line for a value; ``count`` is the full length of an array of which ``value`` holds the beginning."""
    if count is None:
        return abbreviated(value, type_name)
    shown = [abbreviated(element, type_name) for element in value]
    return "[" + ", ".join(shown) + (", ...]" if count > len(value) else "]")


def abbreviated(value: Any, type_name: str) -> str:
    if isinstance(value, float):
        return str(np.float32(value)) if type_name == "f32" else repr(value)  # the shortest that reads back
    text = printable(json.dumps(value, ensure_ascii=False)) if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}... ({len(text)} characters)"
