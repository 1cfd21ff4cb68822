"""The whole stack on the model in the package: text in, text out, alone and in company, and nothing lost."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from engines import DEVICE
from interrupt import alarm_inside

import muser
from muser import (
    ClosedError,
    ContextFullError,
    FileAccessError,
    Model,
    ModelFormatError,
    OutOfMemoryError,
    ParameterError,
    Sampler,
    SamplingParams,
    UnsupportedDeviceError,
)

CHAT = "<|begin_of_text|><|start|>user<|message|>{}<|eot|><|start|>assistant to=user<|message|>"


@pytest.fixture(scope="module")
def model():
    with Model.tiny(context=512) as model:
        yield model


def ask(model: Model, question: str) -> list[int]:
    return model.tokenize(CHAT.format(question), add_bos=False, parse_special=True)


def test_it_tells_a_story_that_ends(model):
    done = model.generate(ask(model, "Tell me a story about a brave turtle."), temperature=0)
    assert done.finish_reason == "eos"
    assert model.tokenizer.token_text(done.end_token) == "<|eot|>"
    assert "turtle" in done.text and done.text.endswith(".")
    assert done.text == model.detokenize(done.tokens).replace("\ufffd", "")


def test_it_answers(model):
    assert model.generate(ask(model, "What does a cow say?"), temperature=0).text == "A cow says moo."


def test_control_tokens_in_a_prompt_are_text(model):
    typed = model.tokenize("<|eot|>")
    parsed = model.tokenize("<|eot|>", parse_special=True)
    assert len(parsed) < len(typed)
    with model.session() as session:
        session.prefill("<|eot|>")
        assert session.tokens == typed


def test_threads_and_coroutines_equal_solo_runs(model):
    prompts = [f"{who} went to the" for who in ("Tom", "Mia", "A cat", "The old man", "Max", "A bird", "Lily", "Ben")]
    params = SamplingParams(temperature=0.9, top_p=0.95, max_tokens=40, seed=5)
    alone = [model.generate(p, params).tokens for p in prompts]
    with ThreadPoolExecutor(8) as pool:
        assert [c.tokens for c in pool.map(lambda p: model.generate(p, params), prompts)] == alone

    async def together():
        return await asyncio.gather(*(model.agenerate(p, params) for p in prompts))

    assert [c.tokens for c in asyncio.run(together())] == alone
    assert sum(model.stats()["groups_by_width"][1:]) > 0  # they really shared passes


def test_a_session_by_hand_equals_generate(model):
    params = SamplingParams(temperature=0.8, top_k=40, seed=3)
    expected = model.generate("Once upon a time", params, max_tokens=20).tokens
    sampler = Sampler(params)
    with model.session() as session:
        session.prefill("Once upon a time")
        tokens = [sampler.sample(session.logits)]
        while len(tokens) < 20:
            tokens.append(sampler.sample(session.decode(tokens[-1])))
    assert tuple(tokens) == expected


def test_rewind_continues_as_if_never_left(model):
    with model.session() as session:
        session.prefill("The cat sat on the")
        there = session.position
        straight = [session.decode(t).copy() for t in (10, 20, 30)]
        session.rewind(to=there)
        assert session.logits is None
        assert all(np.array_equal(session.decode(t), row) for t, row in zip((10, 20, 30), straight))


def test_decode_group_equals_decode(model):
    prompts = ["The cat", "A dog ran", "One", "In the morning, Tom"]
    alone = []
    for prompt in prompts:
        with model.session() as session:
            session.prefill(prompt)
            alone.append(session.decode(77))
    permits = [model.session() for _ in prompts]
    for permit, prompt in zip(permits, prompts):
        permit.session.prefill(prompt)
    rows = muser.decode_group([(permit.session, 77) for permit in permits])
    for permit in permits:
        permit.release()
    assert all(np.array_equal(a, b) for a, b in zip(rows, alone))


def test_every_session_has_the_whole_context(model):
    permits = [model.session() for _ in range(4)]
    for permit in permits:
        assert permit.session.context == model.context == 512
        permit.session.prefill(np.full(512, 5))
        with pytest.raises(ContextFullError):
            permit.session.decode(5)
        permit.release()
    with pytest.raises(ContextFullError, match=r"\b512\b.*\b511\b"):
        model.generate([5] * 512)
    assert len(model.generate([5] * 511).tokens) <= 1


def test_one_long_prompt_does_not_freeze_a_stream():
    """It goes on at every pause of the prompt and after each of its chunks, or at many of them where threads are late."""
    with Model.tiny(slots=2) as model:
        moments = []

        def newcomer():
            with model.session() as session:
                moments.append(model.stats())
                session.prefill(np.full(1900, 5))
                moments.append(model.stats())

        thread = threading.Thread(target=newcomer)
        for n, _ in enumerate(model.stream("Once upon a time", max_tokens=2000, ignore_eos=True)):
            if n == 20:
                thread.start()
            if len(moments) == 2:
                break
        thread.join()
        keys = "prefill_turns", "prefill_pauses", "decode_turns"
        chunks, pauses, tokens = (moments[1][key] - moments[0][key] for key in keys)
        assert chunks == 4 or (model.device != "cpu" and chunks > 4)  # more on a device that cannot pause
        assert tokens >= pauses and tokens >= (chunks + pauses) // 4, (chunks, pauses, tokens)


def test_cancel_during_prefill_returns_within_a_chunk():
    with Model.tiny() as model, model.session() as session:
        threading.Timer(0.02, session.cancel).start()
        with pytest.raises(muser.CancelledError):
            while True:
                session.prefill([5] * 1000)
                session.rewind(to=session.position - 500)


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="needs signals")
def test_ctrl_c_during_native_calls(model):
    with pytest.raises(KeyboardInterrupt):
        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        while True:
            model.generate("Once upon a time", max_tokens=200, ignore_eos=True)
    gc.collect()
    assert model.stats()["free"] == 4


def prefill_on_and_on(session):
    while True:
        session.prefill([5] * 400)
        session.rewind(to=session.position - 400)


def test_a_signal_handler_closes_the_model_that_its_thread_is_in(monkeypatch):
    """It must not wait for its own thread's call to end."""
    grace = 60.0
    monkeypatch.setattr("muser.model.CLOSE_GRACE_SECONDS", grace)
    model, took = Model.tiny(), []

    def close():
        started = time.monotonic()
        model.close()
        took.append(time.monotonic() - started)

    with model.session() as session, alarm_inside(session, close), pytest.raises(ClosedError):
        prefill_on_and_on(session)
    assert took[0] < grace


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_signal_handler_ends_the_session_that_its_thread_is_in(model, caplog, interrupted):
    """It does not wait for its own thread's call, which gives the slot back when it ends."""
    permit, left = model.session(), []

    def end():
        permit.release()
        left.append(not permit.session._drive.taken)
        if interrupted:
            raise KeyboardInterrupt

    ends = KeyboardInterrupt if interrupted else (muser.CancelledError, ClosedError)
    with alarm_inside(permit.session, end), pytest.raises(ends):
        prefill_on_and_on(permit.session)
    assert left == [False] and not caplog.text
    assert model.stats()["free"] == 4


def test_close_with_sessions_and_streams_alive():
    model = Model.tiny(context=256)
    session = model.session().session
    session.prefill("x")
    logits = session.logits
    kept = logits.copy()
    stream = model.stream("Once upon a time")
    next(stream)
    errors = []

    def run():
        try:
            while True:
                model.generate("The cat", ignore_eos=True)
        except ClosedError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    started = time.monotonic()
    model.close()
    assert time.monotonic() - started < 25
    for thread in threads:
        thread.join(30)
    assert len(errors) == 4
    for call in (lambda: next(stream), lambda: session.decode(1), lambda: session.position, lambda: model.stats()):
        with pytest.raises(ClosedError):
            call()
    assert np.array_equal(logits, kept)  # they own their memory


def python(code: str) -> subprocess.CompletedProcess:
    path = str(Path(muser.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], timeout=100, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("work", ["", 'model.generate("Once upon a time", max_tokens=5)'])
def test_loading_and_closing_leaves_memory_flat(work):
    done = python(f"""
        import gc, os, muser
        def once():
            with muser.Model.tiny(context=512) as model:
                {work or "pass"}
        def resident():
            gc.collect()
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for _ in range(20):  # until the allocators have found their size
            once()
        before = resident()
        for _ in range(20):
            once()
        print(before, resident())
    """)
    assert done.stderr == ""
    before, after = map(int, done.stdout.split())
    assert after - before < 2 << 20  # one leaked model would be 12 MB


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_closing_frees_everything_without_the_cycle_collector():
    done = python("""
        import gc, os, weakref, muser
        gc.disable()
        kept, tokenizers = [], []
        def once():
            with muser.Model.tiny(context=512, slots=1) as model:
                model.generate("a", max_tokens=1)
                session = model.session().session
                tokenizers.append(weakref.ref(model.tokenizer))
            kept.append((model, session))  # a closed model that the host keeps holds no memory
        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for _ in range(8):
            once()
        before = resident()
        for _ in range(20):
            once()
        print(before, resident(), sum(t() is not None for t in tokenizers))
    """)
    assert done.stderr == ""
    before, after, alive = map(int, done.stdout.split())
    assert alive == 0
    assert after - before < 3 << 20  # one tokenizer of 4096 tokens is 2 MB, one engine 12 MB


def test_dropping_a_model_frees_it_too():
    model = Model.tiny(context=256)
    stream = model.stream("x")
    next(stream)
    del model
    next(stream)  # a live iterator keeps the model alive
    del stream


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)"])
def test_a_forked_child_ends_and_the_parent_goes_on(leave):
    done = python(f"""
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        import muser
        model = muser.Model.tiny(context=256, threads=2)
        first = model.generate("The cat", max_tokens=10, seed=1)
        if os.fork() == 0:
            try:
                model.generate("x")
            except muser.ForkedError:
                {leave}
            os._exit(1)
        assert os.wait()[1] == 0
        assert model.generate("The cat", max_tokens=10, seed=1).tokens == first.tokens
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_exit_with_daemon_threads_inside_native_calls():
    done = python("""
        import threading, time
        import muser
        threading.excepthook = lambda args: None  # they end with ClosedError; that is the host's to show
        model = muser.Model.tiny(context=1024, threads=2)
        def forever():
            for chunk in model.stream("a", ignore_eos=True):
                pass
        for _ in range(6):
            threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.2)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_load_errors(tmp_path):
    with pytest.raises(FileAccessError) as caught:
        Model.load(tmp_path / "missing.gguf")
    assert "missing.gguf" in caught.value.path
    assert isinstance(caught.value, FileNotFoundError)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, caught.value.path)
    with pytest.raises(FileAccessError) as caught:
        Model.load(tmp_path)
    assert not isinstance(caught.value, FileNotFoundError)
    assert (caught.value.errno, caught.value.strerror, caught.value.filename) == (
        errno.EISDIR, os.strerror(errno.EISDIR), str(tmp_path),
    )  # fmt: skip
    page = tmp_path / "page.gguf"
    page.write_text("<!doctype html>" * 1000)
    with pytest.raises(ModelFormatError) as caught:
        Model.load(page)
    assert (caught.value.path, caught.value.offset) == (str(page), 0)
    if DEVICE == "cpu":
        with pytest.raises(UnsupportedDeviceError, match="metal"):
            Model.tiny(device="metal")
    with pytest.raises(ParameterError, match="device"):
        Model.tiny(device="gpu")
    with pytest.raises(ParameterError, match="kv_dtype"):
        Model.tiny(kv_dtype="q3")
    with pytest.raises(ParameterError, match="context"):
        Model.tiny(context=10**6)
    with pytest.raises(OutOfMemoryError) as caught:
        Model.tiny(memory_limit=8 << 20)
    assert caught.value.needed > caught.value.available
    assert Model.tiny(memory_limit=26 << 20, slots=4).context < 2048  # None: what fits, and it says so


def test_what_a_model_says_of_itself(model):
    assert (model.architecture, model.context, model.vocab_size, model.device) == ("muse-glimmer", 512, 4096, DEVICE)
    assert model.path.endswith("muse-tiny-Q4_K_M.gguf")
    plan = model.memory_plan()
    assert (plan["slots"], plan["context"], plan["kv_dtype"]) == (4, 512, model.kv_dtype) == (4, 512, "f16")
    assert plan["total"] == plan["weights"] + 4 * plan["kv_per_slot"] + plan["workspace"] + plan["retained_logits"]
    assert model.health().ok
    assert "512 rows" in repr(model)
