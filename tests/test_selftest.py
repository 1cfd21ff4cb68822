"""muser selftest: a page that passes on the CPU and the simulated Metal device, and a fault that it finds."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from muser.cli import main
from muser.errors import DeviceError
from muser.selftest import SelfTest, machine, ops


def test_the_cpu_device_passes(capsys) -> None:
    assert main(["selftest", "--device", "cpu", "--quick"]) == 0
    page = capsys.readouterr().out
    assert "every check passed" in page and "FAILED" not in page and "Apple" not in page
    assert "Q4_K" in page and "bit for bit" in page and "GFLOP/s" in page


def test_what_fails_is_named_and_the_exit_code_is_1(capsys, monkeypatch) -> None:
    run = machine.Portable.run

    def wrong(self, program):
        return run(self, program) + np.float32(1e-3)

    monkeypatch.setattr(machine.Portable, "run", wrong)
    monkeypatch.setattr(ops, "TYPES", {name: ops.TYPES[name] for name in ("F32", "Q4_K")})
    assert main(["selftest", "--device", "cpu", "--quick", "--no-timings"]) == 1
    out, err = capsys.readouterr()
    assert "FAILED Q4_K [11, 768], decode of 4: relative RMS" in out and "checks failed" in err
    with pytest.raises(DeviceError, match="checks failed"):
        SelfTest("cpu", lambda line: None, quick=True).run(timings=False)


@pytest.mark.timeout(900)
def test_the_simulated_metal_device_passes() -> None:
    from metal_sim import extension
    from metal_sim.tools import require_clang

    require_clang()
    command = [sys.executable, "-m", "muser", "selftest", "--device", "metal", "--quick"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, env=extension.environment(check=0))
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert "every check passed" in result.stdout
    assert "had not run on Apple hardware" in result.stdout
