"""Engine.greedy: several tokens in one call, the same that decode() and an arg-max give one by one.

On the CPU device it steps, and where nobody wants logits it reads only a part of some heads (tests/cpp/test_choose.cpp); on
the simulated Metal device (tests/test_metal_device.py runs this file there) it is a chain of passes that hand the token to
each other without the host.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from engines import DEVICE, decode, open_engine, prefill
from toy import write_toy
from variants import read, write

from muser import _muser
from muser.errors import CancelledError, ContextFullError, LogitsError, ParameterError, WaitTimeoutError

PROMPT = np.random.default_rng(8).integers(0, 250, 12).astype(np.int32)
MOST = 16  # tokens of one call


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("greedy") / "toy.gguf"
    write_toy(path, "muse-glimmer", layers=2, pattern=[True, False], context=64, window=8)
    return path


def by_hand(path: Path, n: int, first: int) -> list[int]:
    engine = open_engine(path, context=64)
    prefill(engine, PROMPT)
    tokens = [first]
    for _ in range(n):
        tokens.append(int(decode(engine, tokens[-1]).argmax()))
    return tokens[1:]


def started(path: Path, slots: int = 1) -> tuple[_muser.Engine, int]:
    engine = open_engine(path, context=64, slots=slots)
    return engine, int(prefill(engine, PROMPT).argmax())


def with_nan_logits(model: Path, path: Path) -> _muser.Engine:
    """One that holds the prompt, of a copy of the model at ``path``."""
    metadata, tensors = read(model)
    data, kind = tensors["output_norm.weight"]
    write(path, metadata, tensors | {"output_norm.weight": (np.full_like(data, np.nan), kind)})
    engine = open_engine(path, context=64)
    prefill(engine, PROMPT)
    return engine


def in_four_threads(drive: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=drive, args=(slot,)) for slot in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_the_same_tokens_logits_and_session_as_step_by_step(toy: Path) -> None:
    engine, first = started(toy)
    expected = by_hand(toy, 40, first)
    got: list[int] = []
    for n in (1, 2, 3, MOST, 18):
        got += engine.greedy(0, ([first] + got)[-1], min(n, MOST), [], 60.0)
        assert engine.position(0) == len(PROMPT) + len(got)
    assert got == expected[: len(got)]
    assert engine.tokens(0).tolist() == [*PROMPT.tolist(), first, *got[:-1]]
    assert int(engine.logits(0).argmax()) == got[-1]
    engine.rewind(0, len(PROMPT))
    solo = open_engine(toy, context=64)
    prefill(solo, PROMPT)
    assert decode(engine, first).tobytes() == decode(solo, first).tobytes()


@pytest.mark.parametrize("at", (0, 1, 4, 15))
def test_it_stops_after_an_end_token(toy: Path, at: int) -> None:
    engine, first = started(toy)
    expected = by_hand(toy, MOST, first)
    at = expected.index(expected[at])  # the first of its kind
    assert engine.greedy(0, first, MOST, [-5, expected[at]], 60.0) == expected[: at + 1]
    assert engine.position(0) == len(PROMPT) + at + 1
    assert int(engine.logits(0).argmax()) == expected[at]
    # Rows that were computed behind the end are overwritten, not seen.
    more = engine.greedy(0, expected[at], 3, [], 60.0)
    assert more == by_hand(toy, at + 4, first)[at + 1 :]


def test_it_ends_with_the_context(toy: Path) -> None:
    engine, first = started(toy)
    prefill(engine, np.resize(PROMPT, 64 - len(PROMPT) - 3))
    tokens = engine.greedy(0, first, MOST, [], 60.0)
    assert len(tokens) == 3 and engine.position(0) == 64
    with pytest.raises(ContextFullError):
        engine.greedy(0, tokens[-1], MOST, [], 60.0)


def test_cancelled_and_out_of_time(toy: Path) -> None:
    engine, first = started(toy)
    engine.cancel(0)
    with pytest.raises(CancelledError):
        engine.greedy(0, first, MOST, [], 60.0)
    engine.clear_cancel(0)
    with pytest.raises(WaitTimeoutError):
        engine.greedy(0, first, MOST, [], 0.0)
    assert engine.position(0) == len(PROMPT)
    timer = threading.Timer(0.02, engine.cancel, (0,))
    timer.start()
    got = [first]
    with pytest.raises(CancelledError):
        while True:
            got += engine.greedy(0, got[-1], MOST, [], 60.0)
            if engine.position(0) > 40:
                engine.rewind(0, len(PROMPT))
                got = [first]
    timer.join()
    assert engine.position(0) == len(PROMPT) + len(got) - 1
    engine.clear_cancel(0)
    assert (got + engine.greedy(0, got[-1], 2, [], 60.0))[1:] == by_hand(toy, len(got) + 1, first)


def test_in_company(toy: Path) -> None:
    """Four threads: the tokens are those of a solo run, and nobody waits for the end of another's sixteen."""
    engine, first = started(toy, slots=4)
    for slot in (1, 2, 3):
        prefill(engine, PROMPT, slot=slot)
    results: dict[int, list[int]] = {}

    def drive(slot: int) -> None:
        tokens = [first]
        while len(tokens) <= 20:
            tokens += engine.greedy(slot, tokens[-1], 21 - len(tokens) if len(tokens) > 5 else 5, [], 60.0)
        engine.leave_decode(slot)
        results[slot] = tokens[1:]

    in_four_threads(drive)
    expected = by_hand(toy, 20, first)
    assert all(results[slot] == expected for slot in range(4))


def test_out_of_time_in_company_it_returns_what_it_has(toy: Path) -> None:
    """Not all of a call's rows are in when its time is up: every token of those that are is returned."""
    engine, first = started(toy, slots=4)
    expected = by_hand(toy, 50, first)
    lost: list[int] = []
    runs = 30 if DEVICE == "cpu" else 2

    def drive(slot: int) -> None:
        rng = np.random.default_rng(slot)
        for _ in range(runs):
            engine.reset(slot)
            prefill(engine, PROMPT, slot=slot)
            got = [first]
            with suppress(WaitTimeoutError):
                while len(got) <= 30:
                    got += engine.greedy(slot, got[-1], MOST, [], rng.uniform(0, 0.002), False)
            assert got[1:] == expected[: len(got) - 1]
            lost.append(engine.position(slot) - len(PROMPT) - len(got) + 1)
        engine.leave_decode(slot)

    in_four_threads(drive)
    assert lost == [0] * (4 * runs)


@pytest.mark.parametrize("n", (0, -1, MOST + 1))
def test_refused_arguments(toy: Path, n: int) -> None:
    engine, first = started(toy)
    with pytest.raises(ParameterError, match="n must"):
        engine.greedy(0, first, n, [], None)
    with pytest.raises(ParameterError, match="token"):
        engine.greedy(0, 10**6, 1, [], None)


def test_logits_that_nothing_can_be_chosen_from(toy: Path, tmp_path: Path) -> None:
    engine = with_nan_logits(toy, tmp_path / "nan.gguf")
    with pytest.raises(LogitsError, match="NaN"):
        engine.greedy(0, 3, MOST, [], 60.0)
    assert engine.position(0) == len(PROMPT) + 1  # as after decode()


@pytest.fixture(scope="module", params=("llama tied", "llama untied", "muse"))
def choosing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two heads of Q8_0, and one whose softcap asks for all logits."""
    path = tmp_path_factory.mktemp("choosing") / "toy.gguf"
    if request.param == "muse":
        write_toy(path, "muse-glimmer", "Q8_0", layers=2, pattern=[True, False], context=64, window=8)
    else:
        write_toy(path, "llama", "Q8_0", layers=2, tied=request.param == "llama tied", context=64, positive_head=True)
    return path


def test_without_logits(choosing: Path) -> None:
    engine, first = started(choosing)
    expected = by_hand(choosing, 40, first)
    got: list[int] = []
    for n in (1, 1, 3, MOST, 18):
        got += engine.greedy(0, ([first] + got)[-1], min(n, MOST), [], 60.0, False)
        assert engine.position(0) == len(PROMPT) + len(got)
    assert got == expected[: len(got)]
    assert engine.tokens(0).tolist() == [*PROMPT.tolist(), first, *got[:-1]]
    solo = open_engine(choosing, context=64)
    prefill(solo, PROMPT)
    for token in [first, *got]:
        logits = decode(solo, token)
    assert decode(engine, got[-1]).tobytes() == logits.tobytes()
    assert engine.greedy(0, int(logits.argmax()), 1, [], 60.0, True) == [int(engine.logits(0).argmax())]


def test_beside_others_who_want_theirs(choosing: Path) -> None:
    engine, first = started(choosing, slots=4)
    for slot in (1, 2, 3):
        prefill(engine, PROMPT, slot=slot)
    results: dict[int, list[int]] = {}

    def drive(slot: int) -> None:
        tokens = [first]
        for step in range(30):
            if slot == 3 or (slot == 2 and step % 3 == 0):
                tokens.append(int(decode(engine, tokens[-1], slot=slot).argmax()))
            else:
                tokens += engine.greedy(slot, tokens[-1], 1, [], 60.0, slot == 1)
        engine.leave_decode(slot)
        results[slot] = tokens[1:]

    in_four_threads(drive)
    assert [results[slot] for slot in range(4)] == [by_hand(choosing, 30, first)] * 4


def test_without_logits_that_anything_can_be_chosen_from(choosing: Path, tmp_path: Path) -> None:
    engine = with_nan_logits(choosing, tmp_path / "nan.gguf")
    for at in (1, 2):
        with pytest.raises(LogitsError, match="NaN"):
            engine.greedy(0, 3, MOST, [], 60.0, False)
        assert engine.position(0) == len(PROMPT) + at and engine.logits(0) is not None
