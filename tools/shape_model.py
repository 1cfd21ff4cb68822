"""Writes a GGUF model of any supported shape with random, valid weights, for performance work.

    python -m tools.shape_model llama-8b big.gguf                    a named shape
    python -m tools.shape_model llama-8b big.gguf --set layers=4 --mix Q8_0 --type 'blk.*.attn_v.weight=F16'
    python -m tools.shape_model my-shape.json big.gguf               {"base": "llama-8b", "layers": 4, ...}
    python -m tools.shape_model muse-glimmer-30b --dry-run           its tensors and its size

from the root. What a shape may say is told in tools/shapes/shape.py, weight types in tools/shapes/mixes.py. The
forward pass of such a model gives finite, varied logits; its text is noise. Same shape and seed, same bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # run as a file
    sys.path.insert(0, str(ROOT))

from tools.shapes import shape as shapes
from tools.shapes import writer
from tools.shapes.errors import NoSpaceError, ShapeError


def main(arguments: list[str] | None = None) -> int:
    a = parser().parse_args(arguments)
    if a.out is None and not a.dry_run:
        parser().error("OUT.gguf is missing; with --dry-run nothing is written")
    try:
        shape = shapes.find(a.shape, changes(a))
        if a.dry_run:
            print(described(writer.plan(shape)))
        else:
            write(shape, a.out, a.seed)
    except (ShapeError, NoSpaceError, FileNotFoundError) as error:
        print(f"shape_model: {error}", file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="shape_model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("shape", help=f"{', '.join(shapes.NAMED)}, or a .json file")
    made.add_argument("out", type=Path, nargs="?", metavar="OUT.gguf")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="changes to the shape")
    made.add_argument("--mix", help="one weight type for all matrices, Q4_K_M or Q5_K_M")
    made.add_argument("--type", nargs="*", default=[], metavar="TENSOR=TYPE", help="tensors may be a pattern")
    made.add_argument("--dry-run", action="store_true")
    return made


def changes(a: argparse.Namespace) -> dict[str, Any]:
    """What the command line changes in the shape that it names."""
    made = {key: json_or_text(value) for key, value in map(pair, a.set)}
    if a.mix:  # another mix takes the place of everything that the shape says about types
        made |= {"mix": a.mix, "types": {}}
    if a.type:
        made["types"] = {
            **made.get("types", shapes.described(a.shape).get("types", {})),
            **dict(map(pair, a.type)),
        }
    return made


def pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ShapeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value


def json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def described(plan: writer.Plan) -> str:
    lines = [
        f"{t.name:<36} {t.type:<7} {' x '.join(map(str, t.shape)):<16} {t.nbytes:>13,}" for t in plan.tensors
    ]
    counts = Counter(tensor.type for tensor in plan.tensors)
    lines.append(f"{len(plan.tensors)} tensors: {', '.join(f'{n} {kind}' for kind, n in counts.items())}")
    lines.append(f"{plan.tensor_bytes:,} bytes of tensors, {plan.file_bytes:,} bytes in the file")
    return "\n".join(lines)


def write(shape: shapes.Shape, path: Path, seed: int) -> None:
    started = time.perf_counter()

    def report(written: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{written / 1e9:8.2f} GB", end="", file=sys.stderr, flush=True)

    plan = writer.write(shape, path, seed, report)
    seconds = time.perf_counter() - started
    print(f"{path}: {plan.file_bytes:,} bytes in {seconds:.0f} s ({shape.name}, {shape.mix}, seed {seed})")


if __name__ == "__main__":
    raise SystemExit(main())
