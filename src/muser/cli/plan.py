"""``muser plan``: what a model takes of memory with one to four slots, without loading it."""

from __future__ import annotations

import argparse
from typing import Any

from muser.cli.output import emit
from muser.planning import KV_DTYPES, memory_plan

PARTS = ("weights", "mapped", "kv_per_slot", "staging", "workspace", "retained_logits", "total")


def add_parser(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subcommands.add_parser("plan", help="bytes that a model takes with 1 to 4 slots, without loading it")
    parser.add_argument("file", help="a GGUF file")
    parser.add_argument("--context", type=int, help="rows a slot can hold (default: the most that fits with 4 slots)")
    parser.add_argument("--kv-dtype", choices=KV_DTYPES, default="f16")
    parser.add_argument("--context-policy", choices=("error", "shift"), default="error")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    options: dict[str, Any] = {
        "kv_dtype": arguments.kv_dtype,
        "context_policy": arguments.context_policy,
        "prefix_cache_bytes": 0,
    }
    context = arguments.context
    if context is None:
        context = memory_plan(arguments.file, **options)["context"]
    else:
        options["memory_limit"] = 2**63 - 1  # what does not fit here may fit elsewhere
    plans = [memory_plan(arguments.file, slots=slots, context=context, **options) for slots in range(1, 5)]
    first = plans[0]
    emit(f"context of {context:,} rows, {arguments.kv_dtype} keys and values; bytes")
    emit(
        f"planes a slot: {first['growing_planes']} growing of {first['growing_rows']:,} rows, {first['ring_planes']} rings of "
        f"{first['ring_rows']:,} rows; {first['plane_row_bytes']:,} a row"
    )
    emit(f"{'slots':<16}" + "".join(f"{slots:>20}" for slots in range(1, 5)))
    for part in PARTS:
        emit(f"{part:<16}" + "".join(f"{plan[part]:>20,}" for plan in plans))
