"""Arguments that several commands share: which model, and how to sample."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from muser.planning import KV_DTYPES

if TYPE_CHECKING:
    from muser import Model, SamplingParams

A_DAY = 86400.0  # seconds
_SAMPLING = ("max_tokens", "temperature", "top_k", "top_p", "min_p", "stop", "seed")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="a GGUF file, smollm2 or gemma3-270m (default: the tiny Muse in the package)")
    parser.add_argument("--max-tokens", type=int, help="default: until the model ends or the context is full")
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--top-p", type=float)
    parser.add_argument("--min-p", type=float)
    parser.add_argument("--stop", action="append", help="a string that ends the text; may be given several times")
    parser.add_argument("--seed", type=int, help="default: a random one, which --stats reports")
    parser.add_argument("--context", type=int, help="tokens of context (default: what the model and memory allow)")
    parser.add_argument("--kv-dtype", choices=KV_DTYPES, default="f16", help="how keys and values are kept (default: f16)")
    parser.add_argument("--threads", type=int, help="default: the cores of this machine")
    parser.add_argument("--stats", action="store_true", help="afterwards, tokens, times and the seed on stderr")


def sampling(arguments: argparse.Namespace) -> SamplingParams:
    import muser

    given: dict[str, Any] = {name: getattr(arguments, name) for name in _SAMPLING}
    return muser.SamplingParams(**{name: value for name, value in given.items() if value is not None})


def load(arguments: argparse.Namespace) -> Model:
    """With one slot."""
    import muser
    from muser import hub

    options = {"slots": 1, "context": arguments.context, "kv_dtype": arguments.kv_dtype, "threads": arguments.threads}
    if arguments.model is None:
        return muser.Model.tiny(**options)
    return muser.Model.load(hub.resolve(arguments.model, progress=True), **options)
