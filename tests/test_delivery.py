"""Readers that are slow, stay away, come back too late or vanish: a slot is never parked on, every stream ends once, and
nobody else notices. The asynchronous side of it is in test_aio.py."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fake_engine import fake_model, free_slots, reply, wait_until

from muser import CancelledError, Model, ParameterError, SamplingParams


def tokens(chunks):
    return tuple(t for c in chunks for t in c.tokens)


def test_a_reader_that_stays_away_loses_its_slot_and_finds_one_last_chunk():
    model = fake_model(slots=2, next_token=reply("naïve 🦊 STOry", end=None))
    stream = model.stream("x\0", reader_grace=1, stop="STOP")
    first = [next(stream) for _ in range(3)]
    assert free_slots(model) == 1
    wait_until(lambda: free_slots(model) == 2 and stream.completion is not None, 10)  # in this order
    done = stream.completion
    assert done.finish_reason == "cancelled"
    rest = list(stream)
    assert [c.finish_reason for c in rest] == ["cancelled"]
    assert tokens([*first, *rest]) == done.tokens and "".join(c.text for c in [*first, *rest]) == done.text == "naï"
    assert list(stream) == [] and stream.completion is done
    wait_until(lambda: not [t for t in threading.enumerate() if t.name == "muser-watch"])


def test_a_slow_reader_loses_nothing():
    model = fake_model()
    stream, got = model.stream("x", max_tokens=12, seed=1, reader_grace=1.0), []
    for chunk in stream:
        got.append(chunk)
        time.sleep(0.1)  # each within the grace, all of them not
    assert (got[-1].finish_reason, tokens(got)) == ("length", model.generate("x", max_tokens=12, seed=1).tokens)


def test_the_watch_keeps_no_stream_alive():
    model = fake_model(slots=1)
    gc.disable()
    try:
        for _ in range(20):
            stream = model.stream("x", reader_grace=0.02)
            next(stream)
            time.sleep(0.003)
            del stream
            assert free_slots(model) == 1
    finally:
        gc.enable()


def test_coming_back_at_the_moment_of_expiry():
    """Never BusyError, never two ends, nothing lost of what was made."""
    model = fake_model()
    ends = []

    def read(seed):
        rng = random.Random(seed)
        stream, got = model.stream("x", max_tokens=6, reader_grace=0.02, timeout=30), []
        for chunk in stream:
            got.append(chunk)
            time.sleep(rng.choice([0, 0, rng.uniform(0.018, 0.028)]))
        assert sum(c.finish_reason is not None for c in got) == 1 and got[-1].finish_reason
        assert tokens(got) == stream.completion.tokens
        ends.append(got[-1].finish_reason)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(150)))
    assert {"cancelled", "length"} <= set(ends)
    assert free_slots(model) == 4


@pytest.mark.parametrize("grace", [0, -1, float("nan"), "5", None, True, 10**6])
def test_grace_is_checked(grace):
    for method in (fake_model().stream, fake_model().astream):
        with pytest.raises(ParameterError, match="reader_grace must be"):
            method("x", reader_grace=grace)


@pytest.mark.parametrize("real", [False, True], ids=["fake engine", "real engine"])
def test_1000_random_cancel_moments_leave_4_free_slots(real):
    """In every way a generation can be given up, at any moment: waiting, prefill, decode, sampling. Four threads at a
    time fight for three slots; in the fourth a neighbour makes the text that it makes alone."""
    model = Model.tiny(context=512) if real else fake_model(delay=0.0006, chunk=16)
    endless = SamplingParams(max_tokens=None, ignore_eos=True)
    steadily = SamplingParams(max_tokens=20 if real else 100, seed=1, ignore_eos=True)
    steady = model.generate("steady", steadily).tokens
    stop = threading.Event()

    def neighbour():
        while not stop.is_set():
            assert model.generate("steady", steadily).tokens == steady

    def one_end(chunks, whole):
        ends = [c.finish_reason for c in chunks if c.finish_reason]
        assert len(ends) == whole or not whole

    def closed_elsewhere(prompt, moment):
        stream, chunks = model.stream(prompt, endless), []
        thread = threading.Thread(target=lambda: chunks.extend(stream))
        thread.start()
        time.sleep(moment)
        stream.close()
        thread.join(30)
        assert not thread.is_alive()
        if chunks:
            one_end(chunks, 1)
            assert tokens(chunks) == stream.completion.tokens

    def given_up(prompt, moment):
        end = time.monotonic() + moment
        chunks = []
        for chunk in model.stream(prompt, endless):
            chunks.append(chunk)
            if time.monotonic() > end:
                break
        assert not any(c.finish_reason for c in chunks)

    def failing_reader(prompt, moment):
        end = time.monotonic() + moment
        with pytest.raises(ZeroDivisionError):
            for _ in model.stream(prompt, endless):
                if time.monotonic() > end:
                    1 / 0  # noqa: B018

    def session_cancelled(prompt, moment):
        with model.session() as session:
            timer = threading.Timer(moment, session.cancel)
            timer.start()
            with pytest.raises(CancelledError):
                session.prefill(prompt)
                while True:
                    session.decode(1)
            timer.join()

    def task_cancelled(prompt, moment):
        async def main():
            calls = [model.agenerate(prompt, endless), model.agenerate_n(prompt, 3, endless), collect(model.astream(prompt, endless)), model.aembed([prompt] * 50)]
            task = asyncio.ensure_future(rng.choice(calls))
            for call in calls:
                call.close() if task.get_coro() is not call else None
            await asyncio.sleep(moment)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())

    async def collect(stream):
        async for _ in stream:
            pass

    rng = random.Random(7)
    ways = [closed_elsewhere, given_up, failing_reader, session_cancelled, task_cancelled]

    def run(_):
        rng.choice(ways)([7] * rng.randint(1, 120), rng.random() * 0.012)

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(4) as pool:
        beside = one.submit(neighbour)
        try:
            list(pool.map(run, range(1000)))
        finally:
            stop.set()
        beside.result()
    wait_until(lambda: free_slots(model) == 4)
    assert model.slots.stats().waiting == 0
    if real:
        model.close()
    else:
        wait_until(lambda: model.engine.active == 0)
        assert not any(slot.lock.locked() for slot in model.engine._slots)
