"""Generations: how they end, what they return, and that whatever happens to one, its slot comes back and the
others do not notice. On the fake engine."""

from __future__ import annotations

import gc
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fake_engine import BOS, EOS, EOT, VOCAB, fake_model, free_slots, reply, wait_until

from muser import (
    BusyError,
    ClosedError,
    ContextFullError,
    DeviceError,
    LogitsError,
    OverloadedError,
    ParameterError,
    SamplingParams,
    WaitTimeoutError,
)


def joined(chunks):
    return "".join(c.text for c in chunks), tuple(t for c in chunks for t in c.tokens)


# -- how it ends -------------------------------------------------------------------------------------------------


def test_an_end_token_ends_it_and_is_not_part_of_it():
    done = fake_model(next_token=reply("moo.", EOT)).generate("cow\0")
    assert (done.text, done.tokens, done.finish_reason, done.end_token) == ("moo.", tuple(b"moo."), "eos", EOT)
    assert (done.usage.prompt_tokens, done.usage.completion_tokens, done.usage.total_tokens) == (5, 4, 9)
    assert done.context_full is False


def test_ignore_eos_makes_end_tokens_ordinary():
    done = fake_model(next_token=reply("ab", EOS)).generate("x\0", ignore_eos=True, max_tokens=5)
    assert (done.tokens, done.text, done.finish_reason) == ((97, 98, EOS, EOS, EOS), "ab", "length")


def test_stop_token_ids():
    model = fake_model(next_token=reply("abcd"))
    done = model.generate("x\0", stop_token_ids=[ord("c"), EOS])
    assert (done.text, done.finish_reason, done.end_token) == ("ab", "stop", ord("c"))
    assert model.generate("x\0", stop_token_ids=[EOS], ignore_eos=True).finish_reason == "stop"
    with pytest.raises(ParameterError, match=f"0..{VOCAB - 1}"):
        model.generate("x\0", stop_token_ids=[VOCAB])


@pytest.mark.parametrize("n", [0, 1, 2, 17])
def test_max_tokens(n):
    model = fake_model()
    done = model.generate("hello", max_tokens=n)
    assert (len(done.tokens), done.finish_reason, done.end_token) == (n, "length", None)
    assert model.engine.steps == max(0, n - 1)  # the last token is not decoded for nobody
    assert free_slots(model) == 4


def test_max_tokens_zero_takes_no_slot_and_still_checks():
    model = fake_model(slots=1)
    with model.session():
        done = model.generate("hello", max_tokens=0)
        assert (done.text, done.tokens, done.finish_reason, done.usage.prompt_tokens) == ("", (), "length", 6)
        with pytest.raises(ParameterError):
            model.generate([], max_tokens=0)


def test_none_goes_on_until_the_context_is_full():
    model = fake_model(context=32)
    done = model.generate("hello", max_tokens=None)
    assert (done.usage.total_tokens, done.finish_reason, done.context_full) == (32, "length", True)
    done = model.generate("hello", max_tokens=1000)
    assert (done.usage.total_tokens, done.finish_reason, done.context_full) == (32, "length", True)
    assert model.generate("hello", max_tokens=5).context_full is False


# -- prompts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_tokens", [0, 1, None])
def test_prompts_around_the_context(max_tokens):
    model = fake_model(context=32)
    done = model.generate([1] * 31, max_tokens=max_tokens)
    assert len(done.tokens) == (0 if max_tokens == 0 else 1)
    for n in (32, 33, 1000):
        with pytest.raises(ContextFullError, match=rf"\b{n}\b.*\b32\b") as caught:
            model.generate([1] * n, max_tokens=max_tokens)
        assert (caught.value.position, caught.value.capacity) == (n, 32)
    assert free_slots(model) == 4


def test_empty_prompts():
    with_bos, without = fake_model(), fake_model(add_bos=False)
    assert with_bos.generate("", max_tokens=1).usage.prompt_tokens == 1
    for model, prompt in [(without, ""), (with_bos, []), (with_bos, ()), (with_bos, np.array([], np.int64))]:
        with pytest.raises(ParameterError, match="prompt"):
            model.generate(prompt)


@pytest.mark.parametrize(
    "prompt",
    [None, 5, 1.5, b"abc", {"a": 1}, {1, 2}, [1.5], ["a"], [True], [None], [[1, 2]], [-1], [VOCAB], [2**40], [2**80],
     np.array([[1, 2]]), np.array([1.0]), np.array([True]), np.array(["a"]), np.array([-1]), np.array([2**63], np.uint64)],
    ids=lambda v: repr(v)[:24],
)  # fmt: skip
def test_bad_prompts(prompt):
    model = fake_model()
    with pytest.raises(ParameterError, match="prompt") as caught:
        model.generate(prompt, max_tokens=1)
    assert caught.value.parameter == "prompt"


def test_prompts_of_every_kind_are_the_same():
    model = fake_model()
    ids = [BOS, *b"hello"]
    expected = model.generate("hello", max_tokens=8, seed=1).tokens
    kinds = [ids, tuple(ids), iter(ids), np.array(ids), np.array(ids, np.uint16), np.array(ids)[::1], np.int64(ids)]
    for prompt in kinds:
        assert model.generate(prompt, max_tokens=8, seed=1).tokens == expected
    assert model.generate(np.repeat(ids, 2)[::2], max_tokens=8, seed=1).tokens == expected  # not contiguous
    assert model.tokenize("hello") == ids


# -- seeds -------------------------------------------------------------------------------------------------------


def test_the_reported_seed_reproduces_the_run():
    model = fake_model()
    first = model.generate("hello", max_tokens=30)
    again = model.generate("hello", max_tokens=30, seed=first.seed)
    assert again.tokens == first.tokens
    assert again.seed == first.seed


def test_unseeded_runs_differ():
    model = fake_model()
    assert len({model.generate("hello", max_tokens=30).tokens for _ in range(5)}) == 5


# -- streaming ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["plain", "naïve café", "日本語テキスト", "🦊🐢 e\u0301", "\u0000nul", "real \ufffd stays"])
def test_chunks_hold_whole_characters_and_join_to_the_completion(text):
    model = fake_model(next_token=reply(text))
    stream = model.stream("x\0")
    chunks = list(stream)
    assert "".join(c.text for c in chunks) == text
    for chunk in chunks:
        chunk.text.encode()  # no lone surrogates
    assert joined(chunks) == (stream.completion.text, stream.completion.tokens)
    assert [c.finish_reason for c in chunks] == [None] * (len(chunks) - 1) + ["eos"]
    assert all(c.text for c in chunks[:-1])


def test_an_unfinished_character_is_flushed_at_the_end():
    stream = fake_model(next_token=reply("a🦊".encode()[:3])).stream("x\0")
    chunks = list(stream)
    assert joined(chunks) == ("a\ufffd", tuple("a🦊".encode()[:3]))
    assert stream.completion.text == "a\ufffd"


def test_the_slot_is_free_when_the_last_chunk_arrives():
    model = fake_model(slots=1)
    for chunk in model.stream("x", max_tokens=3):
        assert free_slots(model) == (1 if chunk.finish_reason else 0)


def test_stream_and_generate_agree():
    model = fake_model()
    stream = model.stream("hello", max_tokens=20, seed=5)
    assert stream.seed == 5
    list(stream)
    done = model.generate("hello", max_tokens=20, seed=5)
    assert (done.text, done.tokens) == (stream.completion.text, stream.completion.tokens)
    with pytest.raises(StopIteration):
        next(stream)


def test_nothing_starts_before_the_first_chunk_is_asked_for():
    model = fake_model(slots=1)
    streams = [model.stream("x", max_tokens=2) for _ in range(100)]
    assert free_slots(model) == 1
    assert [len(list(s)) for s in streams] == [3] * 100


# -- consumers that go away ----------------------------------------------------------------------------------------


def test_dropping_the_iterator_frees_the_slot_without_the_cycle_collector():
    model = fake_model(slots=1)
    gc.disable()
    try:
        stream = model.stream("x", max_tokens=None)
        next(stream)
        assert free_slots(model) == 0
        del stream
        assert free_slots(model) == 1
        for _ in model.stream("x", max_tokens=None):
            break
        assert free_slots(model) == 1
        with pytest.raises(ZeroDivisionError):
            for _ in model.stream("x", max_tokens=None):
                1 / 0  # noqa: B018
        assert free_slots(model) == 1
    finally:
        gc.enable()


def test_close_keeps_what_there_was():
    model = fake_model(next_token=reply("abcdef"), slots=1)
    with model.stream("x\0") as stream:
        next(stream), next(stream)
    assert (stream.completion.text, stream.completion.finish_reason) == ("ab", "cancelled")
    with pytest.raises(StopIteration):
        next(stream)
    stream.close()
    unused = model.stream("x\0")
    unused.close()
    assert (unused.completion.text, unused.completion.finish_reason) == ("", "cancelled")
    assert free_slots(model) == 1


def test_collected_by_another_thread_while_others_run():
    """A consumer raises, and its stream lives on in a traceback until another thread collects it."""
    model = fake_model(delay=0.0005)
    alone = model.generate("steady", max_tokens=150, seed=1).tokens

    class Holder:
        pass

    def consume_and_fail():
        holder = Holder()
        holder.me, holder.stream = holder, model.stream("x", max_tokens=None)  # a cycle: only gc can free it
        for _ in holder.stream:
            raise RuntimeError

    with ThreadPoolExecutor(3) as pool:
        steady = [pool.submit(model.generate, "steady", max_tokens=150, seed=1) for _ in range(2)]
        for _ in range(5):
            with pytest.raises(RuntimeError):
                consume_and_fail()
            pool.submit(gc.collect).result()
        assert [f.result().tokens for f in steady] == [alone, alone]
    assert free_slots(model) == 4


@pytest.mark.parametrize("moment", ["waiting", "prefill", "decode"])
def test_close_from_another_thread(moment):
    model = fake_model(slots=1, delay=0.005)
    holder = model.session() if moment == "waiting" else None
    stream = model.stream([1] * (400 if moment == "prefill" else 4), max_tokens=None)
    chunks = []
    thread = threading.Thread(target=lambda: chunks.extend(stream))
    thread.start()
    if moment == "waiting":
        wait_until(lambda: model.slots.stats().waiting == 1)
    elif moment == "prefill":
        wait_until(lambda: model.engine.active == 1)
    else:
        wait_until(lambda: len(chunks) > 3)
    stream.close()
    thread.join(30)
    assert not thread.is_alive()
    assert [c.finish_reason for c in chunks][-1] == "cancelled"
    assert sum(c.finish_reason is not None for c in chunks) == 1
    assert stream.completion.finish_reason == "cancelled"
    assert joined(chunks)[1] == stream.completion.tokens
    if holder:
        assert model.slots.stats().waiting == 0
        holder.release()
    assert free_slots(model) == 1


def test_cancelled_at_random_moments():
    """Exactly one last chunk each time, and every slot comes back."""
    model = fake_model(delay=0.001)
    rng = random.Random(4)

    def run(seed):
        stream = model.stream([seed % 200] * rng.randint(1, 200), max_tokens=rng.choice([1, 5, None]))
        chunks = []
        thread = threading.Thread(target=lambda: chunks.extend(stream))
        thread.start()
        time.sleep(rng.random() * 0.02)
        stream.close()
        thread.join(30)
        assert not thread.is_alive()
        assert sum(c.finish_reason is not None for c in chunks) <= 1
        assert stream.completion is not None
        if chunks:
            assert joined(chunks)[1] == stream.completion.tokens

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(60)))
    assert free_slots(model) == 4
    assert not any(slot.lock.locked() for slot in model.engine._slots)


def test_two_readers_of_one_stream():
    model = fake_model(delay=0.05)
    stream = model.stream("x", max_tokens=5)
    thread = threading.Thread(target=lambda: list(stream))
    thread.start()
    wait_until(lambda: model.engine.active == 1)
    with pytest.raises(BusyError):
        next(stream)
    thread.join()
    assert free_slots(model) == 4


def test_ctrl_c_frees_the_slot():
    model = fake_model(slots=1, delay=0.002)
    timer = threading.Timer(0.1, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.generate("x", max_tokens=None)
    gc.collect()
    assert free_slots(model) == 1


# -- company -------------------------------------------------------------------------------------------------------


def test_eight_threads_on_four_slots_equal_eight_solo_runs():
    model = fake_model(delay=0.0002)
    prompts = [f"prompt number {n}" for n in range(8)]
    params = SamplingParams(max_tokens=40, seed=11)
    alone = [model.generate(p, params).tokens for p in prompts]
    with ThreadPoolExecutor(8) as pool:
        together = [c.tokens for c in pool.map(lambda p: model.generate(p, params), prompts)]
    assert together == alone
    assert len(set(alone)) == 8


def test_the_69th_caller_is_turned_away_at_once():
    model = fake_model(delay=0.02)
    release = threading.Event()
    threads = []
    for _ in range(68):
        thread = threading.Thread(target=lambda: list(until(model.stream("x", max_tokens=None), release)))
        thread.start()
        threads.append(thread)
    wait_until(lambda: model.slots.stats().waiting == 64)
    started = time.monotonic()
    with pytest.raises(OverloadedError) as caught:
        model.generate("x", timeout=60)
    assert time.monotonic() - started < 25
    assert (caught.value.waiting, caught.value.limit) == (64, 64)
    release.set()
    for thread in threads:
        thread.join(30)
    assert free_slots(model) == 4


def until(stream, event):
    with stream:
        for chunk in stream:
            yield chunk
            if event.is_set():
                return


def test_timeout_is_for_the_slot():
    model = fake_model(slots=1)
    with model.session(), pytest.raises(WaitTimeoutError):
        model.generate("x", max_tokens=1, timeout=0.01)
    assert model.generate("x", max_tokens=1, timeout=0).finish_reason == "length"


def test_a_failed_generation_harms_nobody_and_leaves_nothing():
    fail_slot = []

    def fail(operation, slot, tokens):
        if operation == "decode" and tokens[:2] == [BOS, ord("!")] and len(tokens) > 7:
            fail_slot.append(slot)
            raise DeviceError("the pass failed")

    model = fake_model(delay=0.0002, fail=fail)
    alone = model.generate("fine", max_tokens=60, seed=2).tokens
    with ThreadPoolExecutor(4) as pool:
        good = [pool.submit(model.generate, "fine", max_tokens=60, seed=2) for _ in range(3)]
        bad = pool.submit(model.generate, "!", max_tokens=60, seed=2)
        with pytest.raises(DeviceError, match="the pass failed"):
            bad.result()
        assert [g.result().tokens for g in good] == [alone] * 3
    assert free_slots(model) == 4
    steps = model.engine.steps
    time.sleep(0.02)
    assert model.engine.steps == steps  # nobody goes on decoding the failed one
    with model.slots.acquire(prompt="!") as session:
        assert session.position == 0 and session.logits is None


def test_logits_that_cannot_be_sampled_fail_their_own_generation_only():
    def spoil(logits, tokens):
        if tokens[1] == ord("!") and len(tokens) > 5:
            logits[3] = np.nan

    model = fake_model(delay=0.0002, spoil=spoil)
    alone = model.generate("fine", max_tokens=60, seed=2).tokens
    with ThreadPoolExecutor(4) as pool:
        good = [pool.submit(model.generate, "fine", max_tokens=60, seed=2) for _ in range(3)]
        with pytest.raises(LogitsError, match=r"logits\[3\] is NaN"):
            pool.submit(model.generate, "!", max_tokens=60, seed=2).result()
        assert [g.result().tokens for g in good] == [alone] * 3
    assert free_slots(model) == 4
    assert model.health().ok


def test_a_stream_that_failed_has_no_completion():
    def fail(operation, slot, tokens):
        if operation == "decode":
            raise DeviceError("the pass failed")

    stream = fake_model(fail=fail).stream("x")
    with pytest.raises(DeviceError):
        list(stream)
    stream.close()
    assert stream.completion is None


# -- closing the model -----------------------------------------------------------------------------------------------


def test_close_ends_running_and_waiting_generations():
    model = fake_model(slots=2, delay=0.005)
    errors = []

    def run():
        try:
            model.generate("x", max_tokens=None)
        except ClosedError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(5)]
    for thread in threads:
        thread.start()
    wait_until(lambda: model.slots.stats().waiting == 3 and model.engine.active == 2)
    started = time.monotonic()
    model.close()
    assert model.engine.active == 0
    assert time.monotonic() - started < 25
    for thread in threads:
        thread.join(30)
    assert len(errors) == 5
    model.close()


def test_everything_after_close_says_so():
    model = fake_model()
    stream, half, session = model.stream("x"), model.stream("x"), model.session().session
    session.prefill("x")
    next(half)
    model.close()
    calls = [
        lambda: model.generate("x"), lambda: model.stream("x"), lambda: model.astream("x"), lambda: model.session(),
        lambda: next(stream), lambda: next(half), lambda: session.decode(1), lambda: session.prefill("x"),
        lambda: session.logits, lambda: session.cancel(), lambda: model.stats(), lambda: model.tokenize("x"),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ClosedError):
            call()
    assert model.health().state == "closed"
    assert "closed" in repr(model)
    session = half = stream = None
    with fake_model() as other:
        pass
    assert other.health().state == "closed"


# -- timings -----------------------------------------------------------------------------------------------------


def test_timings_tell_waiting_from_working():
    model = fake_model(slots=1, delay=0.01)
    permit = model.session()
    threading.Timer(0.1, permit.release).start()
    done = model.generate("x", max_tokens=5)
    assert 0.05 < done.timings.queue_seconds < 30
    assert done.timings.prefill_seconds >= 0.01
    assert done.timings.decode_seconds >= 0.04
    assert done.timings.decode_steps == 4
    assert 0 < done.timings.tokens_per_second <= 100
    assert done.timings.first_token_seconds == done.timings.queue_seconds + done.timings.prefill_seconds
