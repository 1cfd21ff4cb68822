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
from small_muse import write_small_muse

require_clang()
HERE = Path(__file__).resolve().parent


class Suite(NamedTuple):
    file: str
    select: str = ""  # for pytest's -k
    check: int = 0  # every access of memory under the checker: slow
    small: bool = False  # the model inside the package is small_muse's: noise for text, fast enough


SUITES = {
    # Groups of 1 to 4 rows, every weight type, rings that wrap; every chunking of a prompt.
    "exactness of groups": Suite("test_exactness.py", "group_width"),
    "exactness of chunks": Suite("test_exactness.py", "prefill_chunks"),
    "device": Suite("metal_device_cases.py", check=1),
    "transformers reference": Suite("test_reference_muse.py", "token_by_token or greedy or (past_the_ring and 640)"),
    "every switch of the graph": Suite("test_families.py", "one_pass_and_token_by_token"),
    "golden texts": Suite("test_golden_tiny.py", "four_golden"),
    "greedy chains": Suite("test_greedy.py", check=1),
    "greedy text": Suite("test_several_at_once.py", "every_end", small=True),
    "latch": Suite("test_latch.py"),
    # Sessions saved, reused and restored.
    "session state": Suite("test_session_state.py", "(snapshot_at or two_conv) and llama or reuse_leaves or damaged or an_empty"),
    "session walk": Suite("test_session_state.py", "random_walk and muse and f16"),
    "embeddings": Suite("test_embed.py", "transformers or every_family"),
    # That prefill and decode agree in every bit is the CPU's promise.
    "engine": Suite("test_engine.py", "not prefill_then_decode_equals_one_prefill"),
    # Above the engine. Not here: texts of the real model, files that cannot be loaded, and the memory of the process, since
    # the fake Metal's thread frees what it used a little later (metal_device_cases.py counts its objects).
    "model": Suite("test_model.py", "not story and not answers and not memory and not frees_everything and not errors and not of_itself",
                   small=True),
    "log-probabilities": Suite("test_logprobs.py", small=True),
    "choices": Suite("test_choices.py", "each_choice_equals or what_each or an_equal", small=True),
    "reuse": Suite("test_reuse.py", small=True),
    "saving": Suite("test_saving.py", "any_chunk or another_process or damaged_file or another_model", small=True),
    "shift": Suite("test_shift.py", "filled_with or interrupted or second_shift or three_others", small=True),
    "samplers": Suite("test_generation_sampling.py", "real_engine", small=True),
    "grammars": Suite("test_grammar.py", "four_grammars or driven_by_hand or armed or (finished and 1.0)", small=True),
    "chat": Suite("test_chat.py", "company", small=True),
    "tool calls": Suite("test_chat_grammars.py", "another_message", small=True),
}
# The other files use no device: their engine is fake_engine's (generation, stops, delivery, aio, pool, session, interrupts),
# or they load no weights (text, grammar masks, sampler chains, templates, readers).


def run(suite: Suite, environment: dict[str, str]) -> str:
    """What failed; empty when nothing did."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", str(HERE / suite.file), "-k", suite.select]
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=HERE.parent,
                            env=environment | {"MUSER_METAL_SIM_CHECK": str(suite.check)})  # fmt: skip
    return result.stdout[-6000:] + result.stderr[-2000:] if result.returncode else ""


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Starts every suite that will be asked for."""
    small = tmp_path_factory.mktemp("small") / "muse.gguf"
    write_small_muse(small, extension.ROOT / "src" / "muser" / "data" / extension.SHIPPED)
    environments = [extension.environment(tiny, threads=1) | {"MUSER_TEST_DEVICE": "metal"} for tiny in (None, small)]
    chosen = [item.callspec.params["suite"] for item in request.session.items if item.path == request.path]
    pool = ThreadPoolExecutor(2)
    started: dict[str, Future[str]] = {}
    for name in chosen:
        started[name] = pool.submit(run, SUITES[name], environments[SUITES[name].small])
    yield started
    pool.shutdown(cancel_futures=True)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("suite", SUITES)
def test_on_metal(suite: str, outcomes: dict[str, Future[str]]) -> None:
    assert not outcomes[suite].result()
