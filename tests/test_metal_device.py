"""The Metal device on the simulator: the production Objective-C++ and kernels under muser's own tests.

Each suite runs in a process of its own, where muser is built with MUSER_METAL_SIM=ON and the tests open "metal"
(engines.DEVICE). Two run at a time. The Metal device has not run on Apple hardware (docs/metal.md).
"""

from __future__ import annotations

import os
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
    # Threads of a threadgroup at most, whatever the pipeline; 0: 384 to 1,024, by its name. Of a row of 32 or 64 values
    # nearly all threads are idle, and most of the simulator's work.
    most_threads: int = 0
    small: bool = False  # the model inside the package is small_muse's: noise for text, fast enough


def above(file: str, select: str = "") -> Suite:
    """Of what stands above the engine."""
    return Suite(file, select, most_threads=128, small=True)


def walk(select: str) -> Suite:
    return Suite("test_session_walk.py", select, most_threads=128)


# The longest first: two run at a time.
SUITES = {
    "device": Suite("metal_device_cases.py", check=1),
    # Groups of 1 to 4 rows, every weight type, rings that wrap; every chunking of a prompt.
    "exactness of groups": Suite("test_exactness.py", "group_width"),
    "exactness of chunks": Suite("test_exactness.py", "prefill_chunks"),
    "transformers reference": Suite("test_reference_muse.py", "not other_weight and not numpy and (not past_the_ring or 640)"),
    "every switch of the graph": Suite("test_families.py", "one_pass_and_token_by_token or post_norms"),
    "golden texts": Suite("test_golden_tiny.py", "four_golden"),
    "greedy chains": Suite("test_greedy.py", check=1),
    "latch": Suite("test_latch.py"),
    # Sessions saved, reused and restored.
    "walk": walk("muse and f16"),
    "walk without rings": walk("llama"),
    "walk on q8_0": walk("q8_0"),
    "session state": Suite("test_session_state.py", most_threads=128),
    "embeddings": Suite("test_embed.py", "transformers or every_family"),
    # That prefill and decode agree in every bit is the CPU's promise.
    "engine": Suite("test_engine.py", "not prefill_then_decode_equals_one_prefill"),
    # Not here: texts of the real model, files that cannot be loaded, and the memory of the process, since
    # the fake Metal's thread frees what it used a little later (metal_device_cases.py counts its objects).
    "model": above("test_model.py", "not story and not answers and not memory and not frees_everything and not errors and not of_itself"),
    "greedy text": above("test_several_at_once.py"),
    "log-probabilities": above("test_logprobs.py"),
    "choices": above("test_choices.py", "not (of_a_chat and 0)"),
    "reuse": above("test_reuse.py"),
    "saving": above("test_saving.py", "any_chunk or around_an_edge or another_process or damaged_file or another_model or right_checksum or (policy and not chat) or an_empty"),
    "chat saving": above("test_chat_saving.py", "(two and thoughts) or llama"),
    "q8_0": above("test_kv_q8_0.py"),
    "cancels": above("test_delivery.py", "1000 and real"),
    "shift": above("test_shift.py", "filled_with or interrupted or second_shift or three_others or long_prompt or what_it"),
    "samplers": above("test_generation_sampling.py", "real_engine"),
    "grammars": above("test_grammar.py", "four_grammars or driven_by_hand or armed or (finished and 1.0) or several_answers or steps or inside or counted"),
    "chat": above("test_chat.py", "company or dropped_stream"),
    "tool calls": above("test_chat_grammars.py", "another_message"),
    "damaged models": above("test_damaged_models.py"),
    "load": above("test_load.py", "not no_room"),
}
# Not here, though it opens a model on the CPU:
#   exactness of thread counts and levels, memory, the room for a file: of the CPU device, or of the process
#   tiny_muse, chat_real, real_models, most of golden_tiny and chat_saving, readme, quickstart, cli, cli_chat: what trained weights
#     say, minutes each; the golden texts stand for them
#   the rest of shift, grammar and chat: minutes; of saving: files and arguments, refused before the device is asked
#   arguments, api_errors, model_support: the same; quantize_file: weights of every type are in "device"
#   aio times the event loop; chat_readers needs a tokenizer; perf_harness, shape_model: plans, sizes; selftest opens Metal itself
# The other files use no device: their engine is fake_engine's (generation, stops, the rest of delivery, aio, pool, session, interrupts),
# or they load no weights (text, grammar masks, sampler chains, templates, readers; the scheduler's tests in C++).


def run(suite: Suite, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", "-o", "timeout=1200"]
    command += [str(HERE / suite.file), "-k", suite.select]
    settings = {"MUSER_METAL_SIM_CHECK": str(suite.check), "MUSER_METAL_SIM_MAX_THREADS": str(suite.most_threads)}
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=HERE.parent, env=environment | settings)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Starts every suite that will be asked for."""
    small = tmp_path_factory.mktemp("small") / "muse.gguf"
    write_small_muse(small, extension.ROOT / "src" / "muser" / "data" / extension.SHIPPED)
    environments = [extension.environment(tiny, threads=1) | {"MUSER_TEST_DEVICE": "metal"} for tiny in (None, small)]
    chosen = [item.callspec.params["suite"] for item in request.session.items if item.path == request.path]
    pool = ThreadPoolExecutor(2)
    started: dict[str, Future[subprocess.CompletedProcess[str]]] = {}
    for name in chosen:
        started[name] = pool.submit(run, SUITES[name], environments[SUITES[name].small])
    yield started
    pool.shutdown(cancel_futures=True)


@pytest.mark.timeout(0 if "MUSER_WALK_STEPS" in os.environ else 1800)
@pytest.mark.parametrize("suite", SUITES)
def test_on_metal(suite: str, outcomes: dict[str, Future[subprocess.CompletedProcess[str]]]) -> None:
    done = outcomes[suite].result()
    print(done.stdout[-6000:])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
