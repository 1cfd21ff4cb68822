"""``muser generate``: continues a prompt and writes the text as it comes."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from muser.cli.output import emit, flush, stdout


A_DAY = 86400.0


def add_parser(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subcommands.add_parser("generate", help="continue a prompt", description=__doc__)
    parser.add_argument("prompt", help='the text to continue; "-" reads it from stdin')
    parser.add_argument("--model", help="a GGUF file, smollm2 or gemma3-270m (default: the tiny Muse in the package)")
    parser.add_argument("--max-tokens", type=int, help="default: until the model ends or the context is full")
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--top-p", type=float)
    parser.add_argument("--min-p", type=float)
    parser.add_argument("--stop", action="append", help="a string that ends the text; may be given several times")
    parser.add_argument("--seed", type=int, help="default: a random one, which --stats reports")
    parser.add_argument("--context", type=int, help="tokens of context (default: what the model and memory allow)")
    parser.add_argument("--threads", type=int, help="default: the cores of this machine")
    parser.add_argument("--parse-special", action="store_true", help="control tokens in the prompt become themselves")
    parser.add_argument("--stats", action="store_true", help="afterwards, tokens, times and the seed on stderr")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    import muser
    from muser import hub

    stdout()  # before the work, not after it
    names = ("max_tokens", "temperature", "top_k", "top_p", "min_p", "stop", "seed")
    given: dict[str, Any] = {name: getattr(arguments, name) for name in names}
    params = muser.SamplingParams(**{name: value for name, value in given.items() if value is not None})
    options = {"slots": 1, "context": arguments.context, "threads": arguments.threads}
    text = read_stdin() if arguments.prompt == "-" else arguments.prompt
    if arguments.model is None:
        model = muser.Model.tiny(**options)
    else:
        model = muser.Model.load(hub.resolve(arguments.model, progress=True), **options)
    with model:
        prompt = model.tokenize(text, parse_special=arguments.parse_special)
        stream = model.stream(prompt, params, reader_grace=A_DAY)  # a paused pager keeps nobody waiting
        for chunk in stream:
            emit(chunk.text, end="")
            flush()
        emit("")
        done = stream.completion
    if arguments.stats and done is not None and sys.stderr is not None:
        emit(
            f"{done.usage.prompt_tokens} + {done.usage.completion_tokens} tokens, {done.finish_reason}, "
            f"first after {done.timings.first_token_seconds:.3f} s, "
            f"then {done.timings.tokens_per_second:.1f} tokens/s, seed {done.seed}",
            sys.stderr,
        )


def read_stdin() -> str:
    """All of stdin. Raises ParameterError where there is none, or no text in it."""
    from muser.errors import ParameterError

    if sys.stdin is None:
        raise ParameterError('prompt is "-", but stdin is closed', parameter="prompt", value="-")
    try:
        return sys.stdin.read()
    except (OSError, UnicodeError) as error:
        raise ParameterError(f'prompt is "-", but stdin cannot be read: {error}', parameter="prompt", value="-") from None
