"""The Metal device on the simulator: the production Objective-C++ and kernels under muser's own tests.

Each suite runs in a process of its own, where muser is built with MUSER_METAL_SIM=ON and the tests open "metal"
(engines.DEVICE). Two run at a time. The Metal device has not run on Apple hardware (docs/metal.md).
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from metal_sim import extension
from metal_sim.tools import require_clang

require_clang()
HERE = Path(__file__).resolve().parent


class Suite(NamedTuple):
    file: str
    select: str = ""
    check: int = 0  # every access of memory under the checker: slow


SUITES = {
    # Groups of 1 to 4 rows, every weight type, rings that wrap; every chunking of a prompt.
    "exactness of groups": Suite("test_exactness.py", "group_width"),
    "exactness of chunks": Suite("test_exactness.py", "prefill_chunks"),
    "device": Suite("metal_device_cases.py", check=1),
    "transformers reference": Suite("test_reference_muse.py", "token_by_token or greedy or (past_the_ring and 640)"),
    "every switch of the graph": Suite("test_families.py", "one_pass_and_token_by_token"),
    "greedy chains": Suite("test_greedy.py", check=1),
    "latch": Suite("test_latch.py"),
    # Sessions saved, reused and restored; not the random walk, whose oracle prefills what the walk decoded.
    "session state": Suite("test_session_state.py", "(snapshot_at or two_conv) and llama or reuse_leaves or damaged or an_empty"),
    "embeddings": Suite("test_embed.py", "transformers or every_family"),
    # That prefill and decode agree in every bit is the CPU's promise.
    "engine": Suite("test_engine.py", "not prefill_then_decode_equals_one_prefill"),
}


def run(suite: Suite, environment: dict[str, str]) -> str:
    """What failed; empty when nothing did."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", str(HERE / suite.file), "-k", suite.select]
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=HERE.parent,
                            env=environment | {"MUSER_METAL_SIM_CHECK": str(suite.check)})  # fmt: skip
    return result.stdout[-6000:] + result.stderr[-2000:] if result.returncode else ""


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest):
    """Starts every suite that will be asked for."""
    environment = extension.environment(threads=1) | {"MUSER_TEST_DEVICE": "metal"}
    chosen = [item.callspec.params["suite"] for item in request.session.items if item.path == request.path]
    pool = ThreadPoolExecutor(2)
    started: dict[str, Future[str]] = {name: pool.submit(run, SUITES[name], environment) for name in chosen}
    yield started
    pool.shutdown(cancel_futures=True)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("suite", SUITES)
def test_on_metal(suite: str, outcomes: dict[str, Future[str]]) -> None:
    assert not outcomes[suite].result()
