"""``muser selftest``: checks a device on this machine, op by op, and says how fast it is; a page for a report."""

from __future__ import annotations

import argparse

from muser.cli.output import emit, flush


def add_parser(subcommands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subcommands.add_parser("selftest", help="check a device and time it", description=__doc__)
    parser.add_argument("--device", default="auto", help='"auto" (default), "cpu" or "metal"')
    parser.add_argument("--quick", action="store_true", help="few and small cases")
    parser.add_argument("--no-timings", action="store_true")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    from muser.selftest import SelfTest

    def line(text: str) -> None:
        emit(text)
        flush()

    SelfTest(arguments.device, line, quick=arguments.quick).run(timings=not arguments.no_timings)
