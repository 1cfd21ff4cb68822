"""``muser generate``: continues a prompt and writes the text as it comes."""

from __future__ import annotations

import argparse
import sys

from muser.cli.options import A_DAY, add_options, load, sampling
from muser.cli.output import emit, emit_stats, flush, stdout


def add_parser(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subcommands.add_parser("generate", help="continue a prompt", description=__doc__)
    parser.add_argument("prompt", help='the text to continue; "-" reads it from stdin')
    add_options(parser)
    parser.add_argument("--parse-special", action="store_true", help="control tokens in the prompt become themselves")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    stdout()  # before the work, not after it
    params = sampling(arguments)
    text = read_stdin() if arguments.prompt == "-" else arguments.prompt
    with load(arguments) as model:
        prompt = model.tokenize(text, parse_special=arguments.parse_special)
        stream = model.stream(prompt, params, reader_grace=A_DAY)  # a paused pager keeps nobody waiting
        for chunk in stream:
            emit(chunk.text, end="")
            flush()
        emit("")
        done = stream.completion
    if arguments.stats and done is not None:
        emit_stats(done)


def read_stdin() -> str:
    """All of stdin. Raises ParameterError where there is none, or no text in it."""
    from muser.errors import ParameterError

    if sys.stdin is None:
        raise ParameterError('prompt is "-", but stdin is closed', parameter="prompt", value="-")
    try:
        return sys.stdin.read()
    except (OSError, UnicodeError) as error:
        raise ParameterError(f'prompt is "-", but stdin cannot be read: {error}', parameter="prompt", value="-") from None
