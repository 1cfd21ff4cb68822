"""openvino-genai's continuous-batching pipeline, driven step by step. It reads GGUF files of a few families,
converting them while it loads; only tests/perf uses it, and it is never a dependency."""

from __future__ import annotations

import itertools
import os

import numpy as np
import openvino
import openvino_genai

from tests.perf.names import OPENVINO_HINT as HINT

CACHE_GB = 1  # KV cache of all requests together


def versions() -> dict[str, str]:
    said = {"openvino-genai": openvino_genai.__version__, "precision": os.environ.get(HINT, "its own choice")}
    isa = os.environ.get("ONEDNN_MAX_CPU_ISA")
    return said | ({"instructions up to": isa} if isa else {})


class Requests:
    """One pipeline. `step` is the most tokens that it takes in one pass, of prompts and streams together."""

    def __init__(self, path: str, threads: int, step: int) -> None:
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = step
        scheduler.dynamic_split_fuse = True  # streams go on while a prompt is cut into steps
        scheduler.cache_size = CACHE_GB
        properties = {"INFERENCE_NUM_THREADS": threads}
        if HINT in os.environ:
            properties["INFERENCE_PRECISION_HINT"] = os.environ[HINT]
        self.pipeline = openvino_genai.ContinuousBatchingPipeline(path, scheduler, "CPU", properties)
        self.numbers = itertools.count()

    def add(self, tokens: list[int], answer: int):
        """A greedy request for exactly `answer` tokens. Keep the handle: dropping it ends the request."""
        config = openvino_genai.GenerationConfig()
        config.max_new_tokens = answer
        config.do_sample = False
        config.ignore_eos = True
        ids = openvino.Tensor(np.array([tokens], np.int64))
        return self.pipeline.add_request(next(self.numbers), ids, config)

    def run_all(self) -> None:
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()


def arrived(handle) -> bool:
    """Whether the last step gave a token to a request. Ask after each step: every token is read by itself."""
    return handle.can_read() and any(output.generated_ids for output in handle.read().values())
