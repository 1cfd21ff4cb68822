"""generate_n and chat_n: each answer is that of a solo run with its seed, however many slots are free; nothing waits for slots,
nothing is lost when it fails or is cancelled. Session.fork, on which it stands."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
from engines import DEVICE
from fake_engine import fake_model, free_slots, reply, wait_until

from muser import BusyError, ClosedError, DeviceError, Model, ParameterError, SamplingParams, WaitTimeoutError


@pytest.fixture(scope="module")
def model():
    with Model.tiny(context=768) as model:
        yield model


def solo(model, prompt, n, params, **overrides):
    return [model.generate(prompt, params, **{**overrides, "seed": params.seed + i}) for i in range(n)]


def said(completions):
    return [(c.text, c.tokens, c.finish_reason, c.seed, c.logprobs) for c in completions]


@pytest.mark.parametrize("taken", [0, 2, 3])
def test_each_choice_equals_a_solo_run_with_its_seed(model, taken):
    prompt, params = "Once upon a time", SamplingParams(max_tokens=24, temperature=1.2, seed=2**20, ignore_eos=True)
    overrides = {"logprobs": True, "top_logprobs": 2, "echo": taken == 2}
    expected = solo(model, prompt, 4, params, **overrides)
    permits = [model.session() for _ in range(taken)]
    def rows() -> int:
        return model.stats()["prefill_tokens"] + model.stats()["reused_tokens"]

    before = rows()
    choices = model.generate_n(prompt, 4, params, **overrides)
    if taken == 0:
        assert rows() - before == len(model.tokenize(prompt))  # shared
    for permit in permits:
        permit.release()
    assert said(choices) == said(expected)
    assert len({c.tokens for c in choices}) == 4
    assert all(c.usage.total_tokens == expected[0].usage.total_tokens for c in choices)
    assert asyncio.run(model.agenerate_n(prompt, 4, params, **overrides)) is not None
    assert said(asyncio.run(model.agenerate_n(prompt, 3, params, **overrides))) == said(expected[:3])
    assert free_slots(model) == 4


@pytest.mark.parametrize("taken", [0, 3])
def test_each_choice_of_a_chat_equals_a_chat_with_its_seed(model, taken):
    messages = [{"role": "user", "content": "What is 127 times 34?"}]
    tools = [{"name": "calculator.evaluate", "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}}}]
    params = SamplingParams(max_tokens=60, temperature=2.5, seed=2**64 - 2, stop="4")
    options = {"tools": tools, "reasoning": "high", "thinking_budget": 6}
    expected = [model.chat(messages, params, **options, seed=(params.seed + i) % 2**64) for i in range(4)]
    permits = [model.session() for _ in range(taken)]
    before = model.stats()["prefill_tokens"] + model.stats()["reused_tokens"]
    choices = model.chat_n(messages, 4, params, **options)
    if taken == 0:
        rows = model.stats()["prefill_tokens"] + model.stats()["reused_tokens"] - before
        assert rows == choices[0].usage.prompt_tokens  # shared
    later = asyncio.run(model.achat_n(messages, 3, params, **options))
    for permit in permits:
        permit.release()

    def told(replies):
        return [(r.reasoning, r.tool_calls, r.reasoning_tokens, r.message) for r in replies]

    assert (said(choices), told(choices)) == (said(expected), told(expected))
    assert (said(later), told(later)) == (said(expected[:3]), told(expected[:3]))
    assert len({reply.tokens for reply in choices}) > 2
    assert any(reply.tool_calls for reply in choices) or DEVICE == "metal"  # small_muse's noise calls nobody
    for bad in (0, 5, None):
        with pytest.raises(ParameterError, match="n must be an integer in 1..4"):
            model.chat_n(messages, bad)
    assert free_slots(model) == 4


def test_in_turn_past_the_rings():
    """One slot, and answers so long that the prompt is gone from the sliding windows."""
    model = fake_model(slots=1)
    params = SamplingParams(max_tokens=30, seed=5)
    expected = said(solo(model, "A fox", 3, params))
    rewind, refused = model.engine.rewind, []

    def rings(slot, to):
        if to:
            refused.append(to)
            raise ParameterError("to must be at least 9, the oldest row", parameter="to", value=to)
        rewind(slot, to)

    model.engine.rewind = rings
    assert said(model.generate_n("A fox", 3, params)) == expected
    assert refused == [5, 5]


def test_in_turn_when_a_full_context_drops_its_beginning():
    with Model.tiny(context=48, slots=1, context_policy="shift") as model:
        params = SamplingParams(max_tokens=50, temperature=1.1, seed=3, ignore_eos=True)
        for prompt in ("Once upon a time", "Once upon a time there was a fox. " * 8):
            assert said(model.generate_n(prompt, 2, params)) == said(solo(model, prompt, 2, params))


@pytest.mark.parametrize("late", [0, 0.1])
def test_what_each_choice_cost(model, monkeypatch, late):
    """The first pays for the prompt; the others for nothing (in parallel, also where their threads start after the first
    has ended) or for its last row (in turn)."""
    workers = model._threads()
    submit = workers.submit
    monkeypatch.setattr(workers, "submit", lambda work, *args: submit(lambda: (time.sleep(late), work(*args))))

    def cached() -> list[int]:
        model.generate("A new story about a quite different fox", max_tokens=1)
        choices = model.generate_n("My friend the turtle", 3, max_tokens=4, ignore_eos=True)
        assert [c.timings.prompt_tokens for c in choices[1:]] == [n - c.usage.cached_tokens for c in choices[1:]]
        assert choices[0].usage.cached_tokens < n
        return [c.usage.cached_tokens for c in choices[1:]]

    n = len(model.tokenize("My friend the turtle"))
    assert cached() == [n, n]
    permits = [model.session() for _ in range(3)]
    assert cached() == [n - 1, n - 1]
    for permit in permits:
        permit.release()


def test_seeds_wrap_and_unseeded_choices_differ():
    model = fake_model()
    choices = model.generate_n("x", 3, seed=2**64 - 2, max_tokens=9)
    assert [c.seed for c in choices] == [2**64 - 2, 2**64 - 1, 0]
    assert len({c.tokens for c in model.generate_n("x", 4, max_tokens=9)}) == 4
    assert [c.text for c in model.generate_n("x", 2, max_tokens=0, echo=True)] == ["x", "x"]
    for bad in (0, 5, True, "2", None):
        with pytest.raises(ParameterError, match="n must be an integer in 1..4"):
            model.generate_n("x", bad)
    assert free_slots(model) == 4


def test_when_all_slots_are_taken_it_waits_in_line_for_one():
    model = fake_model(slots=2, next_token=reply("abc"))
    permits = [model.session(), model.session()]
    with pytest.raises(WaitTimeoutError):
        model.generate_n("x\0", 3, timeout=0.01)
    threading.Timer(0.05, permits[0].release).start()
    assert [c.text for c in model.generate_n("x\0", 3, timeout=30)] == ["abc"] * 3
    permits[1].release()
    assert free_slots(model) == 2


def test_many_callers_at_once_never_deadlock():
    model = fake_model(delay=0.0002)
    alone = [c.tokens for c in model.generate_n("x", 4, seed=1, max_tokens=10)]

    async def everybody():
        return await asyncio.gather(*(model.agenerate_n("x", 4, seed=1, max_tokens=10) for _ in range(30)))

    found = []
    threads = [threading.Thread(target=lambda: found.append(model.generate_n("x", 4, seed=1, max_tokens=10))) for _ in range(20)]
    for thread in threads:
        thread.start()
    found += asyncio.run(everybody())
    for thread in threads:
        thread.join(20)
    assert [[c.tokens for c in choices] for choices in found] == [alone] * 50
    assert free_slots(model) == 4


@pytest.mark.parametrize("where", ["prefill", "decode", "fork"])
def test_a_failure_ends_all_choices_and_frees_all_slots(where):
    failures = []

    def fail(operation, slot, tokens):
        if operation == where and (where != "decode" or len(tokens) == 12):
            failures.append(slot)
            raise DeviceError("the pass failed")

    model = fake_model(delay=0.0005, fail=fail)
    with pytest.raises(DeviceError, match="the pass failed"):
        model.generate_n("hello", 4, max_tokens=None)
    assert failures and free_slots(model) == 4


@pytest.mark.parametrize("moment", ["waiting", "prefill", "decode"])
def test_cancelling_the_task_frees_the_slots(moment):
    model = fake_model(delay=0.002)

    async def main():
        permits = [model.session() for _ in range(4)] if moment == "waiting" else []
        task = asyncio.ensure_future(model.agenerate_n([1] * (500 if moment == "prefill" else 3), 4))
        if moment == "waiting":
            while not model.slots.stats().waiting:
                await asyncio.sleep(0.001)
        else:
            while model.engine.active < (1 if moment == "prefill" else 4):
                await asyncio.sleep(0.0005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for permit in permits:
            permit.release()
        while free_slots(model) < 4:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(main(), 30))
    wait_until(lambda: model.engine.active == 0)


def test_a_fork_is_an_equal_and_goes_its_own_way(model):
    ids = np.array(model.tokenize("The little dog ran over the hill because it had seen a red ball."), np.int32)
    with model.session() as one, model.slots.acquire() as two, model.session() as three:
        one.prefill(np.resize(ids, 600))  # past the rings' first lap
        one.rewind(590)
        one.prefill(ids[:3])
        two.prefill("something else that is gone afterwards")
        one.fork(into=two)
        assert two.tokens == one.tokens and two.logits.tobytes() == one.logits.tobytes()
        two.decode(7)
        one.decode(9)
        three.prefill(np.resize(ids, 590))
        three.prefill(ids[:3])
        three.decode(9)
        assert one.logits.tobytes() == three.logits.tobytes()
        for session in (two, three):
            session.rewind(560)
            session.prefill(ids[:5])
        assert two.logits.tobytes() == three.logits.tobytes()
        with pytest.raises(ParameterError, match="into must be another session"):
            one.fork(into=one)
        with pytest.raises(ParameterError, match="into must be another session"):
            one.fork(into="two")


def test_fork_needs_two_sessions_at_rest():
    model, other = fake_model(delay=0.1), fake_model()
    first, second = model.session(), model.session()
    with pytest.raises(ParameterError):
        first.session.fork(into=other.session())
    thread = threading.Thread(target=first.session.prefill, args=("x",))
    thread.start()
    wait_until(lambda: model.engine.active == 1)
    with pytest.raises(BusyError):
        second.session.fork(into=first)
    thread.join()
    second.session.fork(into=first)
    second.release()
    with pytest.raises(ClosedError):
        first.session.fork(into=second)
