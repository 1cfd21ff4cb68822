"""``muser info``: versions, machine, CPU features; what to put into a bug report."""

from __future__ import annotations

import argparse

from muser.cli.output import emit


def add_parser(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subcommands.add_parser("info", help="versions, machine and CPU features", description=__doc__)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from muser.system import system_info

    info = system_info()
    width = max(map(len, info))
    for name, value in info.items():
        emit(f"{name:<{width}}  {', '.join(value) if isinstance(value, list) else value}")
