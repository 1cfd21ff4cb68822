"""Who takes part in a run: muser, and whichever peers are installed. A peer is never a dependency: it may live
in an interpreter of its own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.perf.compare import Worker, has_package
from tests.perf.names import ITSELF, LLAMA, LLAMA_LIBS, OPENVINO, OPENVINO_HINT, name_of

OPENVINO_KINDS = ("decode", "group", "prefill")  # of jobs that it is asked to do


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=[ITSELF, LLAMA, OPENVINO], help="leave the others out")
    parser.add_argument(
        "--llama-python", default=sys.executable, help="interpreter that has llama-cpp-python"
    )
    parser.add_argument(
        "--llama-libs", type=Path, nargs="*", default=[], metavar="FOLDER",
        help="libraries of other builds of the same llama.cpp, each one more side",
    )  # fmt: skip
    parser.add_argument(
        "--openvino-python", default=sys.executable, help="interpreter that has openvino-genai"
    )
    parser.add_argument(
        "--openvino-hints", nargs="*", default=[], metavar="HINT",
        help="other values of its INFERENCE_PRECISION_HINT, such as f32, each one more side",
    )  # fmt: skip


def candidates(path: Path, a: argparse.Namespace) -> list[Worker]:
    """Every side that is installed and asked for, not started yet; muser first."""
    sides = [Worker(ITSELF, "muser_side", str(path), a.threads)]
    if a.only in (None, LLAMA) and has_package(a.llama_python, "llama_cpp"):
        side = Worker(LLAMA, "llama_side", str(path), a.threads, a.llama_python)
        sides.append(side)
        for folder in a.llama_libs:
            environment = {LLAMA_LIBS: str(folder.absolute())}
            sides.append(side.variant(folder.name, environment))
    if a.only in (None, OPENVINO) and has_package(a.openvino_python, "openvino_genai"):
        side = Worker(OPENVINO, "openvino_side", str(path), a.threads, a.openvino_python, OPENVINO_KINDS)
        sides.append(side)
        sides += [side.variant(hint, {OPENVINO_HINT: hint}) for hint in a.openvino_hints]
    return [side for side in sides if a.only in (None, name_of(side.side))]
