"""The ``muser`` command. Each subcommand lives in a module of its own with two functions:
``add_parser(subcommands)`` declares its arguments, ``run(arguments)`` does the work.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TextIO

import muser
from muser.cli import chat, generate, info, inspect, plan, quantize, selftest
from muser.cli.output import emit, flush, printable
from muser.errors import MuserError

COMMANDS = (generate, chat, info, inspect, plan, quantize, selftest)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="muser", description="One GGUF model, one to four generations side by side."
    )
    parser.add_argument("--version", action="version", version=f"muser {muser.__version__}")
    subcommands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subcommands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code: 0 done, 1 an error (one line on stderr), 130 interrupted.

    Wrong arguments raise ``SystemExit(2)``, as argparse does. A reader that went away (``| head``) is no error;
    a stdout that is closed or full is one.
    """
    try:
        try:
            arguments = build_parser().parse_args(argv)
        except SystemExit:  # after --help and --version
            flush()
            raise
        arguments.run(arguments)
        flush()
    except MuserError as error:
        complain(str(error))
        return 1
    except BrokenPipeError:
        discard(sys.stdout)
        return 0
    except OSError as error:  # nothing but the output is written
        discard(sys.stdout)
        complain(f"cannot write the output: {error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def complain(message: str) -> None:
    """One line on stderr, if there is a stderr that takes it."""
    if sys.stderr is None:
        return
    try:
        emit("muser: " + printable(" ".join(message.split())), sys.stderr)
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO | None) -> None:
    """The interpreter flushes a stream once more at exit; what is left in its buffer needs somewhere to go."""
    if stream is None:
        return
    with contextlib.suppress(OSError):  # a stream without a descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
