"""Coroutines: the same results, no thread held while waiting, a free event loop, and slots that come back."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import numpy as np
import pytest
from fake_engine import fake_model, free_slots, reply, wait_until
from test_grammar_engine import LARGE, ran_meanwhile, watch_sorting

from muser import (
    BusyError,
    ClosedError,
    ContextFullError,
    DeviceError,
    Grammar,
    Model,
    OverloadedError,
    ParameterError,
    SamplingParams,
    WaitTimeoutError,
    aio,
)
from muser.grammar import backend


async def settled(condition, timeout=30.0):
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.002)


async def test_eight_coroutines_equal_eight_solo_runs():
    model = fake_model(delay=0.0002)
    prompts = [f"prompt number {n}" for n in range(8)]
    params = SamplingParams(max_tokens=40, seed=11)
    alone = [model.generate(p, params).tokens for p in prompts]
    together = await asyncio.gather(*(model.agenerate(p, params) for p in prompts))
    assert [c.tokens for c in together] == alone
    streams = await asyncio.gather(*(collect(model.astream(p, params)) for p in prompts))
    assert [tuple(t for c in chunks for t in c.tokens) for chunks in streams] == alone
    assert all([c.finish_reason for c in chunks if c.finish_reason] == ["length"] for chunks in streams)
    await settled(lambda: free_slots(model) == 4)


async def collect(stream):
    return [chunk async for chunk in stream]


async def test_a_stream_joins_to_its_completion():
    stream = fake_model(next_token=reply("naïve 🦊")).astream("x\0", seed=3)
    assert (stream.seed, stream.completion) == (None, None)
    chunks = await collect(stream)
    assert "".join(c.text for c in chunks) == stream.completion.text == "naïve 🦊"
    assert stream.seed == stream.completion.seed == 3
    assert await collect(stream) == []


def test_a_stream_belongs_to_the_loop_that_began_it():
    """Whether or not there are chunks for the other one."""
    for delay in (0.0, 0.001):
        model = fake_model(delay=delay, slots=1)
        stream = model.astream("x", max_tokens=500, ignore_eos=True)
        asyncio.run(stream.__anext__())

        async def read_on(model=model, stream=stream):
            with pytest.raises(BusyError, match="another one cannot read it on"):
                await stream.__anext__()
            await settled(lambda: free_slots(model) == 1)
            assert await collect(stream) == []
            return (await model.agenerate("x", max_tokens=3)).finish_reason

        assert asyncio.run(read_on()) == "length"


async def test_200_waiting_coroutines_hold_no_threads():
    model = fake_model(slots=1)
    permit = model.session()
    before = threading.active_count()
    tasks = [asyncio.ensure_future(model.agenerate("x", max_tokens=2)) for _ in range(200)]
    await settled(lambda: sum(t.done() for t in tasks) == 136)  # 64 may wait; the others are refused at once
    assert model.slots.stats().waiting == 64
    assert threading.active_count() <= before + 3
    permit.release()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(isinstance(r, OverloadedError) for r in results) == 136
    assert sum(getattr(r, "finish_reason", None) == "length" for r in results) == 64


async def beat(late):
    """How long a ready coroutine waits for the event loop, in seconds."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        late.append(time.perf_counter() - before - 0.001)


@pytest.mark.parametrize("delay", [0.0, 0.05])
async def test_the_event_loop_never_calls_what_waits(monkeypatch, delay):
    """Nothing of the engine that takes time runs in the thread of the event loop, whatever runs or ends."""
    model, callers = fake_model(delay=delay, slots=2), set()
    for name in ("_work", "_logits", "embed"):
        work = getattr(model.engine, name)
        monkeypatch.setattr(model.engine, name, lambda *a, work=work, **k: (callers.add(threading.get_ident()), work(*a, **k))[1])
    await everything(model)
    assert callers and threading.get_ident() not in callers


async def everything(model):
    await asyncio.gather(model.agenerate("x", max_tokens=2), collect(model.astream("y", max_tokens=2)))
    await asyncio.gather(model.agenerate_n("x", 2, max_tokens=2), model.aembed(["x", "y"]))
    stream = model.astream("x")
    await stream.__anext__()
    tasks = [asyncio.ensure_future(call) for call in (model.agenerate("x"), model.agenerate_n("x", 3), model.aembed(["x"]))]
    await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await stream.aclose()
    async with model.slots.acquire_async(prompt="x"):
        pass
    await settled(lambda: free_slots(model) == 2)


@pytest.mark.parametrize("prompt", ["x", [5] * 100, range(5, 9), np.arange(5, 9)], ids=["text", "list", "range", "array"])
async def test_no_prompt_is_converted_in_the_event_loop(monkeypatch, prompt):
    model, callers = fake_model(slots=1), []
    encode = model._core.encode
    monkeypatch.setattr(model._core, "encode", lambda *a, **k: (callers.append(threading.get_ident()), encode(*a, **k))[1])
    async with model.slots.acquire_async(prompt=prompt):
        pass
    with await model.slots.acquire_async(prompt=prompt):
        pass
    with pytest.raises(ParameterError, match="prompt"):
        await model.slots.acquire_async(prompt=[-1])
    assert len(callers) == 3 and threading.get_ident() not in callers
    assert free_slots(model) == 1


async def test_the_event_loop_never_waits_for_the_engine():
    """Every engine call takes 0.4 s; whatever runs or ends, no beat comes as late as one call takes. The best of three
    runs: one that waits does so each time, a machine that stands still does not."""
    latest = []
    for _ in range(3):
        late = []
        beating = asyncio.ensure_future(beat(late))
        await everything(fake_model(delay=0.4, slots=2))
        beating.cancel()
        latest.append(max(late))
        if latest[-1] < 0.35:
            break
    assert min(latest) < 0.35


async def test_no_callback_works_5_ms_in_the_event_loop(monkeypatch):
    """Of its own time, on the real engine and tokenizer, with long prompts. What gates is a ratio, to encoding the long
    prompt once, which must never happen in the loop; on a machine at rest the longest callback takes about 2 ms. The best
    of three runs, without the collector's walks over the objects of all other tests."""
    work, run = [], asyncio.events.Handle._run
    gc.collect()
    gc.freeze()

    def timed(handle):
        before = time.thread_time()
        run(handle)
        work[-1].append(time.thread_time() - before)

    with Model.tiny(context=1024) as model:
        long = "The quick brown fox. " * 20_000
        before = time.thread_time()
        model.tokenize(long)
        limit = max(0.005, (time.thread_time() - before) / 8)
        for _ in range(3):
            await asyncio.sleep(0)
            work.append([])
            with monkeypatch.context() as patch:
                patch.setattr(asyncio.events.Handle, "_run", timed)
                with pytest.raises(ContextFullError):
                    await model.agenerate(long)
                async with model.slots.acquire_async(prompt=long):
                    pass
                await asyncio.gather(
                    *(model.agenerate("x" * 300, max_tokens=20) for _ in range(3)),
                    *(collect(model.astream("x" * 300, max_tokens=20)) for _ in range(3)),
                    model.agenerate_n("x" * 300, 3, max_tokens=10),
                    model.aembed(["x" * 300] * 3),
                )
            if max(work[-1]) < 0.005:
                break
    gc.unfreeze()
    assert all(len(one) > 50 for one in work)
    assert min(max(one) for one in work) < limit


async def test_the_event_loop_goes_on_while_the_first_grammar_sorts_the_vocabulary(monkeypatch):
    grammar, spans, beats = Grammar.regex("[a-z]+"), watch_sorting(monkeypatch), []
    vocabulary = backend.vocabulary

    def sort_more(*arguments):
        vocabulary(LARGE, [0])
        return vocabulary(*arguments)

    async def beat():
        while True:
            beats.append(time.perf_counter())
            await asyncio.sleep(0.0005)

    monkeypatch.setattr(backend, "vocabulary", sort_more)
    beating = asyncio.ensure_future(beat())
    for _ in range(10):  # enough for any machine that stalls now and then
        spans.clear()
        await fake_model().agenerate("x", grammar=grammar, max_tokens=2)
        if ran_meanwhile(beats, spans):
            break
    else:
        pytest.fail("the loop stood still")
    beating.cancel()


async def test_a_long_prompt_raises_instead_of_waiting_for_ever():
    model = fake_model(context=32)
    with pytest.raises(ContextFullError):
        await asyncio.wait_for(model.agenerate("x" * 32), 30)
    with pytest.raises(ContextFullError):
        await asyncio.wait_for(collect(model.astream("x" * 32)), 30)
    with pytest.raises(ParameterError):
        await model.agenerate([])
    with pytest.raises(ParameterError):
        model.astream("x", max_tokens=-1)
    assert free_slots(model) == 4


async def test_cancelling_the_task_frees_the_slot():
    model = fake_model(slots=1, delay=0.005)
    for stage in ("decode", "waiting"):
        permit = model.session() if stage == "waiting" else None
        for make in (lambda: model.agenerate("x"), lambda: collect(model.astream("x"))):
            task = asyncio.ensure_future(make())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert model.slots.stats().waiting == 0
            if permit is None:
                await settled(lambda: free_slots(model) == 1, 0.5)
        if permit is not None:
            permit.release()
    assert free_slots(model) == 1


async def test_closing_and_dropping_free_the_slot():
    model = fake_model(slots=1, delay=0.002)
    stream = model.astream("x")
    await stream.__anext__()
    assert free_slots(model) == 0
    await stream.aclose()
    await settled(lambda: free_slots(model) == 1, 0.5)
    with pytest.raises(StopAsyncIteration):
        await stream.__anext__()
    assert stream.completion.finish_reason == "cancelled"

    async with model.astream("x") as stream:
        await stream.__anext__()
    await settled(lambda: free_slots(model) == 1, 0.5)

    gc.disable()
    try:
        stream = model.astream("x")
        await stream.__anext__()
        del stream
        await settled(lambda: free_slots(model) == 1, 0.5)
    finally:
        gc.enable()

    never_started = model.astream("x")
    await never_started.aclose()
    del never_started


async def test_a_slow_reader_loses_nothing_and_a_dead_one_is_cancelled(monkeypatch):
    monkeypatch.setattr(aio, "MAX_UNDELIVERED", 4)
    model = fake_model(slots=1)
    slow = []
    async for chunk in model.astream("x", max_tokens=20, seed=1):
        slow.append(chunk)
        await asyncio.sleep(0.02)
    assert tuple(t for c in slow for t in c.tokens) == model.generate("x", max_tokens=20, seed=1).tokens

    stream = model.astream("x", max_tokens=400, seed=1, reader_grace=0.15)
    first = await stream.__anext__()
    await settled(lambda: free_slots(model) == 1, 2)  # although nobody closed it
    rest = [chunk async for chunk in stream]
    assert rest[-1].finish_reason == "cancelled"
    assert stream.completion.finish_reason == "cancelled"
    assert tuple(t for c in [first, *rest] for t in c.tokens) == stream.completion.tokens
    assert 4 <= len(stream.completion.tokens) <= 8


async def test_errors_arrive_in_the_reader():
    def fail(operation, slot, tokens):
        if operation == "decode" and len(tokens) > 4:
            raise DeviceError("the pass failed")

    model = fake_model(fail=fail, slots=1)
    got = []
    with pytest.raises(DeviceError, match="the pass failed"):
        async for chunk in model.astream("x"):
            got.append(chunk)
    assert len(got) == 4
    with pytest.raises(DeviceError):
        await model.agenerate("x")
    await settled(lambda: free_slots(model) == 1)


async def test_timeout_is_for_the_slot():
    model = fake_model(slots=1)
    async with model.slots.acquire_async():
        with pytest.raises(WaitTimeoutError):
            await model.agenerate("x", timeout=0.01)
        with pytest.raises(WaitTimeoutError):
            await collect(model.astream("x", timeout=0.01))
    assert (await model.agenerate("x", max_tokens=1, timeout=30)).finish_reason == "length"


async def test_max_tokens_zero_takes_no_slot():
    model = fake_model(slots=1)
    with model.session():
        assert (await model.agenerate("x", max_tokens=0)).finish_reason == "length"
        assert [c.finish_reason for c in await collect(model.astream("x", max_tokens=0))] == ["length"]


async def test_two_readers_of_one_stream():
    model = fake_model(delay=0.02)
    stream = model.astream("x", max_tokens=3)
    first = asyncio.ensure_future(stream.__anext__())
    await asyncio.sleep(0)
    with pytest.raises(BusyError):
        await stream.__anext__()
    await first
    assert len(await collect(stream)) == 3


async def test_close_ends_running_and_waiting_coroutines():
    model = fake_model(slots=2, delay=0.003)
    tasks = [asyncio.ensure_future(model.agenerate("x")) for _ in range(4)]
    tasks += [asyncio.ensure_future(collect(model.astream("x"))) for _ in range(4)]
    await settled(lambda: model.slots.stats().waiting == 6)
    await asyncio.to_thread(model.close)
    results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
    assert [type(r) for r in results] == [ClosedError] * 8
    with pytest.raises(ClosedError):
        await model.agenerate("x")


def test_a_loop_that_is_abandoned_leaves_no_running_generation():
    model = fake_model(slots=1, delay=0.002)

    async def leave():
        stream = model.astream("x")
        await stream.__anext__()
        asyncio.ensure_future(model.agenerate("y"))
        await asyncio.sleep(0.01)

    asyncio.run(leave())
    gc.collect()
    deadline = time.monotonic() + 30
    while free_slots(model) != 1 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert free_slots(model) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda model: collect(model.astream("x")),
        lambda model: model.agenerate("x"),
        lambda model: model.agenerate_n("x", 2),
    ],
    ids=["astream", "agenerate", "agenerate_n"],
)
def test_a_loop_that_is_closed_with_a_task_in_it_frees_the_slot(call):
    """Although nothing in it was cancelled, and its host keeps the task."""
    model = fake_model(slots=2, delay=0.002, context=1_000_000, next_token=lambda _: 5)
    loop = asyncio.new_event_loop()
    task = loop.create_task(call(model))
    loop.run_until_complete(settled(lambda: free_slots(model) < 2 and model.engine.steps > 3))
    loop.close()
    wait_until(lambda: free_slots(model) == 2)
    assert not task.done()
    task._log_destroy_pending = False  # it is meant to


def test_no_threads_before_the_first_coroutine():
    model = fake_model()
    model.generate("x", max_tokens=2)
    assert model._executor is None
    asyncio.run(model.agenerate("x", max_tokens=2))
    assert model._executor is not None
