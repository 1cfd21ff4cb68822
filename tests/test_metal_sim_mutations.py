"""The checks find faults: each is planted in a copy of an example kernel or host, and must be found.

A fault that only wrong numbers show has ``numbers`` as its finding. Found otherwise than said is a failure too.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from metal_sim import build, example_host, fake_metal
from metal_sim.example_cases import CASES, SEEDS, WrongNumbers
from metal_sim.host_faults import HOST_FAULTS
from metal_sim.kernel_faults import FAULTS, REFUSED
from metal_sim.mutations import Mutation
from metal_sim.runner import KernelFault, Library
from metal_sim.tools import require_clang

require_clang()
pytestmark = pytest.mark.timeout(1200)  # the first test compiles for all
KERNELS = example_host.HERE / "kernels"


def by_name(mutations: list[Mutation]) -> dict:
    return {"argvalues": mutations, "ids": [mutation.name for mutation in mutations]}


def test_there_are_enough_faults():
    assert len(FAULTS) >= 30 and len(HOST_FAULTS) >= 20
    assert len({m.name for m in FAULTS + REFUSED + HOST_FAULTS}) == len(FAULTS + REFUSED + HOST_FAULTS)


@pytest.mark.parametrize("name", sorted(CASES))
def test_without_a_fault_nothing_is_found(name):
    for seed in SEEDS:
        CASES[name](Library(KERNELS / f"{name}.metal"), seed)


@pytest.fixture(scope="module")
def planted() -> Callable[[Mutation], Path]:
    """The file of a fault. All are compiled at once, on all cores; what fails then fails again in its test."""
    paths: dict[str, Path] = {}

    def build_one(fault: Mutation) -> None:
        folder = build.folder() / "faults" / re.sub(r"\W+", "-", fault.name)  # the same in the next run, for the cache
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if fault.file == "example":
                paths[fault.name] = fault.write(example_host.SOURCE, folder)
                example_host.compiled(paths[fault.name])
            else:
                paths[fault.name] = fault.write(KERNELS / f"{fault.file}.metal", folder)
                build.kernel_library(paths[fault.name], "check")
        except build.CompileError:
            pass

    build.fake_metal_library()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(build_one, FAULTS + HOST_FAULTS))
    return lambda fault: paths[fault.name]


@pytest.mark.parametrize("fault", **by_name(FAULTS))
def test_kernel_fault(fault, planted):
    library = Library(planted(fault))
    found = []
    for seed in SEEDS:
        try:
            CASES[fault.file](library, seed)
        except WrongNumbers:
            found.append("numbers")
        except KernelFault as error:
            found += error.reports
    assert any(re.search(fault.finds, finding) for finding in found), found or "not found"


@pytest.mark.parametrize("fault", **by_name(REFUSED))
def test_refused(fault, tmp_path):
    path = fault.write(KERNELS / f"{fault.file}.metal", tmp_path)
    with pytest.raises((build.MetalSyntaxError, build.CompileError), match=fault.finds):
        build.lint(path)


def findings(source: Path) -> list[str]:
    """What a host with a fault shows: findings, wrong numbers, its own error, objects left behind."""
    fake_metal.take_reports()
    before = fake_metal.live_objects()
    host = example_host.Host(source, tolerant=True)
    found = host.errors
    if host.handle:
        for n in (2, 1, 2, 2):
            found += run(host, n)
        with fake_metal.setting(fail_in=1):
            if not any(finding.startswith("error: ") for finding in run(host, 1)):
                found.append("the failure was not noticed")
        found += hang(host)
    host.close()
    if fake_metal.settled_objects(before, seconds=0.5) != before:
        found.append(f"objects live: {fake_metal.live_classes()}")
    return found + fake_metal.take_reports()


def run(host: example_host.Host, n: int, timeout_ms: int = 500) -> list[str]:
    x = np.random.default_rng(n).standard_normal((n, example_host.BLOCKS * 32)).astype("f4")
    try:
        right = np.allclose(host.forward(x, timeout_ms), host.expected(x), rtol=1e-3, atol=1e-3)
    except example_host.HostError as error:
        return [f"error: {error}"]
    return [] if right else ["numbers"]


def hang(host: example_host.Host) -> list[str]:
    """With a GPU that stops: the host must give up by itself. The GPU goes on afterwards."""
    with fake_metal.setting(hang_in=1):
        caller = threading.Thread(target=run, args=(host, 1, 50))
        caller.start()
        caller.join(30)
        endless = caller.is_alive()
        if fake_metal.get("hang_in") == 0:  # it was committed, and the GPU stopped
            fake_metal.put("release_hung", 1)
        caller.join(30)
    return ["the wait has no end"] if endless else []


@pytest.mark.parametrize("fault", **by_name(HOST_FAULTS))
def test_host_fault(fault, planted):
    with fake_metal.setting(delay_us=2000):
        found = findings(planted(fault))
    assert any(re.search(fault.finds, finding) for finding in found), found or "not found"
