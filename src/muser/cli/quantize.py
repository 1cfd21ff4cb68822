"""``muser quantize IN.gguf OUT.gguf``: the same model with other weight types."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable

from muser.cli.output import emit, printable
from muser.errors import ParameterError


def add_parser(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subcommands.add_parser("quantize", help="write a model with other weight types", description=__doc__)
    parser.add_argument("source", metavar="IN.gguf", help="any model that muser reads; of a split one the first part")
    parser.add_argument("target", metavar="OUT.gguf", help="appears when it is whole; must not be IN.gguf")
    parser.add_argument("--type", default="Q4_K_M", help="Q2_K to Q8_0, F16, BF16 or F32 (default: Q4_K_M)")
    parser.add_argument(
        "--tensor-type", action="append", default=[], metavar="PATTERN=TYPE", help='as in "output.weight=Q8_0"'
    )
    parser.add_argument("--threads", type=int, help="default: the cores of this machine")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from muser.quantizing import quantize

    started = time.perf_counter()
    patterns = dict(map(pair, arguments.tensor_type))
    written = quantize(
        arguments.source,
        arguments.target,
        arguments.type,
        tensor_types=patterns,
        threads=arguments.threads,
        progress=meter(),
    )
    counts = Counter(written.tensor_types.values())
    types = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    seconds = time.perf_counter() - started
    emit(f"{printable(written.path)}: {written.nbytes:,} bytes in {seconds:.0f} s, {arguments.type} ({types})")


def pair(text: str) -> tuple[str, str]:
    pattern, _, kind = text.rpartition("=")
    if not pattern or not kind:  # of both there must be something
        empty = "" if "=" not in text else f": its {'type' if pattern else 'pattern'} is empty"
        raise ParameterError(f"--tensor-type must be PATTERN=TYPE, not {text}{empty}", parameter="tensor_types", value=text)
    return pattern, kind


def meter() -> Callable[[int, int], None] | None:
    """Percent on stderr, if a person is watching."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        return None

    def show(done: int, total: int) -> None:
        emit(f"\r{100 * done // total:3d} %", stream, end="\n" if done == total else "")
        stream.flush()

    return show
