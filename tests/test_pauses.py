"""A prompt's pass that lets decode steps in between its own steps (csrc/session/decoder_pauses.h), in a real engine with
real threads: everybody's bits are those of an engine alone, and whatever ends the pass leaves nothing behind.

``pause_after`` 0 lets waiting decoders in after every step, which a toy would not live long enough for otherwise. The
passes themselves: tests/cpp/test_cpu_pauses.cpp; whose turn it is: tests/cpp/test_scheduler_pauses.cpp; what ends them:
tests/cpp/test_decoder_pauses.cpp.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from engines import PATIENCE, decode, open_engine
from fake_engine import FakeTokenizer, wait_until
from interrupt import alarm_inside
from toy import write_toy

from muser import Model, Permit, Session, _muser
from muser.errors import CancelledError, ClosedError, DeviceError, UnhealthyError, WaitTimeoutError

RNG = np.random.default_rng(5)
PROMPT = RNG.integers(0, 200, 700).astype(np.int32)  # a whole chunk and a shorter one
STREAMS = RNG.integers(0, 200, (3, 60)).astype(np.int32)  # what the decoders decode


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pauses") / "muse.gguf"
    write_toy(path, "muse-glimmer", quant="Q4_K", d_model=256, d_ff=512, context=1024)
    return str(path)


def open_with_pauses(toy: str) -> _muser.Engine:
    return open_engine(toy, device="cpu", slots=4, context=1024, threads=2, pause_after=0.0)


@pytest.fixture(scope="module")
def alone(toy: str) -> tuple[np.ndarray, list[list[bytes]]]:
    """The logits of the prompt's last token, and of every token of every stream, each from an engine without company."""
    engine = open_engine(toy, device="cpu", context=1024)
    engine.prefill(0, PROMPT, timeout=PATIENCE)
    of_prompt = engine.logits(0)
    of_streams = []
    for stream in STREAMS:
        engine.reset(0)
        of_streams.append([decode(engine, token).tobytes() for token in stream])
    return of_prompt, of_streams


@contextmanager
def decoding(
    engine: _muser.Engine, expected: list[list[bytes]], first_slot: int = 1
) -> Iterator[Callable[[], int]]:
    """Threads that decode a stream each again and again; gives how many steps were right so far."""
    stop, right, wrong = threading.Event(), [0] * len(expected), []

    def stream(i: int) -> None:
        while not stop.is_set():
            engine.reset(first_slot + i)
            for at, token in enumerate(STREAMS[i]):
                if stop.is_set():
                    return
                try:
                    logits = decode(engine, token, slot=first_slot + i)
                except (ClosedError, UnhealthyError):
                    return
                right[i] += 1
                if logits.tobytes() != expected[i][at]:
                    wrong.append((i, at))

    threads = [threading.Thread(target=stream, args=(i,)) for i in range(len(expected))]
    for thread in threads:
        thread.start()
    try:
        yield lambda: sum(right)
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert not wrong


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def paused_or_done(engine: _muser.Engine, pauses: int, thread: threading.Thread) -> bool:
    return engine.stats()["prefill_pauses"] > pauses or not thread.is_alive()


def test_a_prompt_and_the_streams_beside_it_have_the_bits_of_their_own(toy, alone):
    engine = open_with_pauses(toy)
    with decoding(engine, alone[1]) as steps:
        for _ in range(5):
            before = steps()
            engine.reset(0)
            engine.prefill(0, PROMPT, timeout=PATIENCE)
            assert engine.logits(0).tobytes() == alone[0].tobytes()
            assert steps() > before
    stats = engine.stats()
    assert stats["prefill_turns"] == 10  # two chunks each, as if nobody decoded
    assert stats["prefill_pauses"] > 10


def test_tokens_without_logits_beside_a_prompt(tmp_path):
    """The second recorder chooses as the first one does, from half of the head (docs/architecture.md)."""
    path = tmp_path / "llama.gguf"
    write_toy(path, "llama", quant="Q8_0", context=1024, positive_head=True)
    solo = open_engine(path, device="cpu", context=1024)
    solo.prefill(0, PROMPT, timeout=PATIENCE)
    of_prompt, expected = solo.logits(0).tobytes(), []
    for first in (3, 30, 100):
        solo.reset(0)
        tokens = [first]
        for _ in range(40):
            tokens.append(int(decode(solo, tokens[-1]).argmax()))
        expected.append(tokens)
    engine = open_with_pauses(path)
    stop, texts = threading.Event(), [[], [], []]

    def write(i):
        while not stop.is_set():
            engine.reset(i + 1)
            tokens = [expected[i][0]]
            while len(tokens) <= 40:
                tokens += engine.greedy(i + 1, tokens[-1], 1, [], PATIENCE, False)
            texts[i].append(tokens)

    writers = [in_thread(partial(write, i)) for i in range(3)]
    for _ in range(10):
        engine.reset(0)
        engine.prefill(0, PROMPT, timeout=PATIENCE)
        assert engine.logits(0).tobytes() == of_prompt
    stop.set()
    for thread, errors in writers:
        thread.join(PATIENCE)
        assert not errors
    assert all(text and all(tokens == expected[i] for tokens in text) for i, text in enumerate(texts))
    assert engine.stats()["prefill_pauses"] > 10


def test_two_prompts_at_once(toy, alone):
    """One pass is paused at a time: the other prompt's waits until it is through."""
    engine = open_with_pauses(toy)
    with decoding(engine, alone[1][:2], first_slot=2) as steps:
        for _ in range(3):
            before = steps()
            prompts = [in_thread(lambda slot=slot: engine.prefill(slot, PROMPT, timeout=PATIENCE)) for slot in (0, 1)]
            for slot, (thread, errors) in enumerate(prompts):
                thread.join(PATIENCE)
                assert not errors
                assert engine.logits(slot).tobytes() == alone[0].tobytes()
                engine.reset(slot)
            assert steps() > before


def test_cancelled_in_the_middle_of_a_pass(toy, alone):
    """The rows of whole chunks stay, and the next prefill of the rest is right."""
    began = time.monotonic()
    engine = open_with_pauses(toy)
    positions = set()
    with decoding(engine, alone[1]):
        for more in [*range(1, 30), *[1] * 200]:
            if more == 1 and 0 in positions:
                break  # on a busy machine the cancel may come late, again and again
            engine.reset(0)
            pauses = engine.stats()["prefill_pauses"]
            thread, errors = in_thread(lambda: engine.prefill(0, PROMPT, timeout=PATIENCE))
            wait_until(partial(paused_or_done, engine, pauses + more, thread))
            engine.cancel(0)
            thread.join(PATIENCE)
            assert not thread.is_alive()
            engine.clear_cancel(0)
            assert all(isinstance(error, CancelledError) for error in errors)
            position = engine.position(0)
            positions.add(position)
            if errors:
                engine.prefill(0, PROMPT[position:], timeout=PATIENCE)
            assert engine.logits(0).tobytes() == alone[0].tobytes()
    assert positions <= {0, 512, 700}
    assert 0 in positions
    stats = engine.stats()  # a pass that was given up had the device until its last pause, no longer
    assert stats["prefill_seconds"] + stats["decode_seconds"] <= time.monotonic() - began


def test_a_caller_whose_time_is_up_gets_its_chunk_nevertheless(toy, alone):
    """Or one who tries again and again with little time would never get on."""
    engine = open_with_pauses(toy)
    with decoding(engine, alone[1]):
        done = 0
        while done < len(PROMPT):
            try:
                engine.prefill(0, PROMPT[done:], timeout=0.002)
            except WaitTimeoutError:
                assert engine.position(0) in (done, 512)
            done = engine.position(0)
        assert engine.logits(0).tobytes() == alone[0].tobytes()


def test_closed_in_the_middle_of_a_pass(toy, alone):
    engine = open_with_pauses(toy)
    with decoding(engine, alone[1]):
        thread, errors = in_thread(lambda: [engine.prefill(0, PROMPT, timeout=PATIENCE) or engine.reset(0) for _ in range(1000)])
        wait_until(lambda: engine.stats()["prefill_pauses"] > 3)
        engine.close()
        thread.join(PATIENCE)
    assert [type(error) for error in errors] == [ClosedError]


def test_a_decode_that_fails_beside_a_paused_pass(toy):
    """Everybody hears the cause, and nothing of the prompt's chunk is there."""
    kinds = set()
    for commit in range(2, 12):
        engine = _muser.testing.faulty_engine(toy, slots=2, commit=commit, pausing=True)

        def stream(engine: _muser.Engine = engine) -> None:
            while True:
                engine.reset(1)
                decode(engine, 1, slot=1)

        def prompt(engine: _muser.Engine = engine) -> None:
            while True:
                engine.reset(0)
                engine.prefill(0, PROMPT, timeout=PATIENCE)

        ends = [in_thread(prompt), in_thread(stream)]
        for thread, errors in ends:
            thread.join(PATIENCE)
            assert "injected fault" in str(errors[0])
        kinds.add(tuple(type(errors[0]) for _, errors in ends))
        assert engine.position(0) in (0, 512)
    assert (UnhealthyError, DeviceError) in kinds
    assert kinds <= {(UnhealthyError, DeviceError), (DeviceError, UnhealthyError)}


def test_a_signal_handler_in_a_pause_ends_a_session_whose_decode_waits_for_the_prompt(toy, caplog):
    """Two threads decode as a group, which gets no turn before the handler returns: it must not wait for them."""
    model = Model(open_with_pauses(toy), FakeTokenizer)

    def decode_on_and_on(session: Session) -> None:
        while True:
            session.decode(5)
            session.rewind(0)

    def end(permits: list[Permit]) -> None:
        permits[1].release()
        permits[0].session.cancel()

    for _ in range(3):
        permits = [model.session() for _ in range(3)]
        prompt = permits[0].session
        threads = [in_thread(partial(decode_on_and_on, permit.session)) for permit in permits[1:]]
        with alarm_inside(prompt, partial(end, permits)), pytest.raises(CancelledError):
            while True:
                prompt.prefill(PROMPT)
                prompt.rewind(0)
        for permit in permits:
            permit.release()
        for thread, errors in threads:
            thread.join(PATIENCE)
            assert isinstance(errors[0], (CancelledError, ClosedError))
        assert model.slots.stats().free == 4
    assert not caplog.text
