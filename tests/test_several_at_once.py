"""Where nobody reads before the end, tokens of temperature 0 come several in a native call (Engine.greedy). The results are
those of a stream, which takes single steps: every end, in company, cancelled. greedy() itself: tests/test_greedy.py."""

from __future__ import annotations

import asyncio
import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest
from engines import DEVICE
from fake_engine import free_slots, wait_until

from muser import Grammar, Model, SamplingParams

PROMPT = "Once upon a time"
COW = [{"role": "user", "content": "What does a cow say?"}]


class Counting:
    """The engine, and what each call of greedy() gave."""

    def __init__(self, engine):
        self.engine, self.runs = engine, []

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def greedy(self, *arguments):
        self.runs.append(self.engine.greedy(*arguments))
        return self.runs[-1]


def load(**options):
    model = Model.tiny(device=DEVICE, **options)
    model.counting = model._core._native = Counting(model._core._native)
    return model


@pytest.fixture(scope="module")
def models():
    """One to stream, one to generate."""
    with load(context=160) as streaming, load(context=160) as generating:
        yield streaming, generating


def streamed(stream):
    for _ in stream:
        pass
    return stream.completion


def outcome(completion):
    timings = completion.timings
    costs = {"timings": (timings.prompt_tokens, timings.decode_steps)}
    return {**{field.name: getattr(completion, field.name) for field in dataclasses.fields(completion)}, **costs}


def test_every_end_is_that_of_single_steps(models):
    streaming, generating = models
    told = streamed(streaming.stream(PROMPT, temperature=0, max_tokens=60, ignore_eos=True)).tokens
    assert generating.generate(PROMPT, temperature=0, max_tokens=60, ignore_eos=True).tokens == told
    for model in models:  # from logits that are all there
        assert streamed(model.stream(PROMPT, temperature=0, max_tokens=60, ignore_eos=True, logprobs=True)).tokens == told
    cases = [{"max_tokens": n, "ignore_eos": True} for n in (0, 1, 2, 17, 18)]
    cases += [{"max_tokens": 60, "stop_token_ids": [told[at]], "include_stop": bool(at % 2)} for at in (0, 1, 16, 33)]
    cases += [{"max_tokens": 40, "stop_token_ids": [told[3]], "min_tokens": n, "echo": True} for n in (2, 21)]
    cases += [{"top_k": 3, "top_p": 0.5, "min_p": 0.1}, {"ignore_eos": True}]  # to an end of its own, and the context's
    for case in cases:
        params = SamplingParams(temperature=0, seed=1, **case)
        expected = streamed(streaming.stream(PROMPT, params))
        before = len(generating.counting.runs)
        assert outcome(generating.generate(PROMPT, params)) == outcome(expected)
        rows = [[model.counting.retained(slot) for slot in range(4)] for model in models]
        assert rows[0] == rows[1]
        assert len(generating.counting.runs) > before or expected.timings.decode_steps == 0
    assert max(map(len, generating.counting.runs)) == 16 and max(map(len, streaming.counting.runs)) == 1


def test_a_chat_and_a_full_context_that_goes_on(models):
    streaming, generating = models
    before = len(generating.counting.runs)
    options = {"temperature": 0, "reasoning": "high", "seed": 1}
    assert outcome(generating.chat(COW, **options)) == outcome(streamed(streaming.chat_stream(COW, **options)))
    assert len(generating.counting.runs) > before
    params = SamplingParams(temperature=0, max_tokens=90, ignore_eos=True, seed=1)
    for prompt in (PROMPT, f"{PROMPT} there was a fox. " * 8):
        with load(slots=1, context=48, context_policy="shift", prefix_cache_bytes=0) as model:
            done = model.generate(prompt, params)
            assert outcome(done) == outcome(streamed(model.stream(prompt, params)))
            assert done.dropped_tokens and model.counting.runs


def test_what_looks_at_every_token_steps(models):
    _, generating = models
    before = len(generating.counting.runs)
    for case in (
        {"temperature": 0.1}, {"logprobs": True}, {"grammar": Grammar.regex("[a-z ]{9}")}, {"logit_bias": {5: 1.0}},
        {"repetition_penalty": 1.1}, {"presence_penalty": 0.1}, {"dry_multiplier": 0.5, "dry_sequence_breakers": ()},
        {"typical_p": 0.9}, {"logits_processors": [lambda tokens, logits: None]}, {"xtc_probability": 0.5, "xtc_threshold": 0.1},
    ):  # fmt: skip
        generating.generate(PROMPT, **{"temperature": 0, "max_tokens": 12, **case})
    generating.chat(COW, temperature=0, tools=[{"name": "a.b"}], max_tokens=12)
    generating.chat(COW, temperature=0, thinking_budget=5, max_tokens=12)
    assert len(generating.counting.runs) == before
    generating.generate(PROMPT, temperature=0, max_tokens=12, stop="x")  # one by one, without logits
    assert {len(run) for run in generating.counting.runs[before:]} == {1}


def test_in_company_and_cancelled(models):
    streaming, generating = models
    prompts = [f"{PROMPT}, a {animal}" for animal in ("fox", "cow", "bee", "dog")]
    params = SamplingParams(temperature=0, max_tokens=70, ignore_eos=True)
    alone = [streamed(streaming.stream(prompt, params)).tokens for prompt in prompts]
    groups = generating.stats()["groups_by_width"]
    with ThreadPoolExecutor(4) as threads:
        assert [done.tokens for done in threads.map(lambda prompt: generating.generate(prompt, params), prompts)] == alone
    assert sum(generating.stats()["groups_by_width"][1:]) > sum(groups[1:])  # packed

    async def cancelled_soon():
        task = asyncio.ensure_future(generating.agenerate(PROMPT, temperature=0, ignore_eos=True))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for _ in range(3):
        asyncio.run(cancelled_soon())
        wait_until(lambda: free_slots(generating) == 4)
    assert generating.generate(prompts[0], params).tokens == alone[0]
