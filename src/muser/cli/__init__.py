"""The ``muser`` command. Each subcommand lives in a module of its own with two functions:
``add_parser(subcommands)`` declares its arguments, ``run(arguments)`` does the work.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from muser.cli import generate, info, inspect
from muser.cli.output import emit, printable
from muser.errors import MuserError

COMMANDS = (generate, info, inspect)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="muser", description="One GGUF model, one to four generations side by side."
    )
    subcommands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subcommands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code: 0 done, 1 a typed error (one line on stderr), 130 interrupted.

    Wrong arguments raise ``SystemExit(2)``, as argparse does. A reader that went away (``| head``) is no error.
    """
    arguments = build_parser().parse_args(argv)
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except MuserError as error:
        emit("muser: " + printable(" ".join(str(error).split())), sys.stderr)
        return 1
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit; give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return 0
