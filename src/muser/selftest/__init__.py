"""``muser selftest``: is a device right on this machine, and how fast. One page to paste into a report.

Metal is compared with the CPU device (float32 weights, so that no activation is rounded to eight bits), the CPU
device with its own portable level, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import muser
from muser.errors import DeviceError, MuserError
from muser.selftest import model, ops, timing
from muser.selftest.machine import Machine, Portable, cpu_level, relative_rms
from muser.system import system_info

LIMIT = 2e-4  # relative RMS of an op against the CPU device; keys and values are rounded to 16 bits on both
UNTRIED = (
    "The Metal device had not run on Apple hardware when this version was made: it was checked on Linux, on a simulator.",
    "Please paste this page into an issue, also when every check passed.",
)
Emit = Callable[[str], None]


class SelfTest:
    """Runs everything, line by line to ``emit``; ``failures`` says what did not hold."""

    def __init__(self, device: str, emit: Emit, *, quick: bool = False) -> None:
        self.quick, self.emit = quick, emit
        self.failures: list[str] = []
        self.checks = 0
        machine = Machine(device)
        self.device = "metal" if machine.ops.name == "metal" else "cpu"
        self.description = machine.ops.description

    def run(self, *, timings: bool = True) -> None:
        """Raises DeviceError when a check failed."""
        self.head()
        self.every_op()
        self.tiny_model()
        if timings:
            self.timings()
        self.emit("")
        if self.failures:
            for failure in self.failures:
                self.emit(f"FAILED {failure}")
            raise DeviceError(f"selftest: {len(self.failures)} of {self.checks} checks failed")
        self.emit(f"every check passed ({self.checks})")

    def head(self) -> None:
        info = system_info()
        self.emit(f"muser {muser.__version__} selftest, device {self.device}: {self.description}")
        self.emit(f"{info['platform']}, {info['cpu']}, Python {info['python']}")
        for line in UNTRIED if self.device == "metal" else ():
            self.emit(line)

    def check(self, what: str, holds: bool) -> None:
        self.checks += 1
        if not holds:
            self.failures.append(what)

    def every_op(self) -> None:
        against = "the CPU device, float32" if self.device == "metal" else "the portable level, bit for bit"
        self.emit(f"\nops against {against}: largest relative RMS")
        tested = Machine(self.device)
        reference = Machine("cpu", as_values=True) if self.device == "metal" else Portable("cpu")
        for group, cases in ops.cases(self.quick):
            worst, bad = 0.0, 0
            for case in cases:
                try:
                    got, expected = tested.run(case.program), reference.run(case.program)
                except MuserError as error:
                    self.check(f"{group}, {case.name}: {error}", False)
                    bad += 1
                    continue
                distance = relative_rms(got, expected)
                right = distance < LIMIT if self.device == "metal" else got.tobytes() == expected.tobytes()
                self.check(f"{group}, {case.name}: relative RMS {distance:.1e}", right)
                bad += not right
                worst = distance if math.isnan(distance) else max(worst, distance)
            self.emit(f"  {'ok    ' if not bad else 'FAILED'} {group:<34} {len(cases):3} cases  {worst:.1e}")

    def tiny_model(self) -> None:
        self.emit("\nthe tiny model")
        try:
            for promise, held in model.exactness(self.device, self.quick):
                self.check(promise, held)
                self.emit(f"  {'ok    ' if held else 'FAILED'} {promise}")
            got = model.rows(self.device, self.quick)
            with cpu_level("portable" if self.device == "cpu" else ""):
                distance, agree, n = model.compared(got, model.rows("cpu", self.quick))
        except MuserError as error:
            self.check(f"the tiny model: {error}", False)
            return
        held = distance < model.LIMIT if self.device == "metal" else distance == 0.0
        self.check(f"logits against the CPU device: relative RMS {distance:.1e}", held)
        words = f"logits against the CPU device: relative RMS {distance:.1e}, {agree} of {n} first tokens agree"
        self.emit(f"  {'ok    ' if held else 'FAILED'} {words}")

    def timings(self) -> None:
        self.emit("\nproducts: GB/s of weights at 1, 2, 3, 4 rows; GFLOP/s of a prompt's rows")
        for name, bandwidth, flops in timing.table(self.device, self.quick):
            self.emit(f"  {name:<6} " + " ".join(f"{b:8.1f}" for b in bandwidth) + f"   {flops:9.1f}")
