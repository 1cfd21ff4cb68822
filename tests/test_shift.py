"""Full contexts that go on: which tokens stay, that the rest is computed as if it were new, and that nobody else notices."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muser
from muser.errors import CancelledError, ContextFullError, ParameterError, WaitTimeoutError
from muser.shifting import fitting, shifted, turns

CONTEXT = 384  # window 256, so rings have no less
END = 7


@pytest.fixture(scope="module")
def model():
    with muser.Model.tiny(context=CONTEXT, context_policy="shift", prefix_cache_bytes=0) as model:
        yield model


@pytest.fixture(scope="module")
def plain():
    with muser.Model.tiny(context=CONTEXT, prefix_cache_bytes=0) as model:
        yield model


@given(st.lists(st.integers(5, 9), min_size=1, max_size=60), st.integers(0, 60))
def test_what_stays(tokens, keep):
    keep = min(keep, len(tokens) - 1)
    array = np.array(tokens, np.int32)
    kept = shifted(array, keep, {END}).tolist()
    dropped = len(tokens) - len(kept)
    least = -(-(len(tokens) - keep) // 2)
    assert least <= dropped <= len(tokens) - keep
    assert kept == tokens[:keep] + tokens[keep + dropped :]
    # The first end of a turn at which enough is gone, or just enough.
    cuts = [keep + n for n in range(least, len(tokens) - keep) if tokens[keep + n - 1] == END]
    assert keep + dropped == (cuts[0] if cuts else keep + least)
    for room in range(keep + 1, len(tokens)):
        assert keep <= len(fitting(array, keep, room, {END})) <= room
    count = tokens.count(END)
    for n in range(count + 2):
        assert turns(array, n, {END}) == (0 if not 0 < n <= count else [i for i, t in enumerate(tokens) if t == END][n - 1] + 1)


@pytest.mark.parametrize("keep", [0, 1, 60, CONTEXT - 1])
def test_a_shifted_session_is_one_that_was_filled_with_what_stays(model, plain, keep):
    ids = np.random.default_rng(keep).integers(0, 900, CONTEXT).tolist()
    with model.session() as session, plain.session() as cold:
        session.prefill(ids)
        with pytest.raises(ContextFullError):
            session.decode(5)
        dropped = session.shift(keep)
        assert dropped == -(-(CONTEXT - keep) // 2)
        cold.prefill(ids[:keep] + ids[keep + dropped :])
        assert session.tokens == cold.tokens
        assert session.logits.tobytes() == cold.logits.tobytes()
        for token in (5, 6, 7)[: CONTEXT - session.position]:
            assert session.decode(token).tobytes() == cold.decode(token).tobytes()


def test_a_generation_goes_on_past_the_context_while_three_others_run(model, plain):
    alone = model.generate("Once upon a time", max_tokens=430, ignore_eos=True, seed=3)
    assert len(alone.tokens) == 430 and alone.truncated and not alone.context_full
    others = [plain.generate(f"{name} was", max_tokens=80, ignore_eos=True, seed=i) for i, name in enumerate(("Tom", "Anna", "Ben"))]
    found: dict[int, muser.Completion] = {}
    threads = [
        threading.Thread(target=lambda i=i, name=name: found.update({i: model.generate(f"{name} was", max_tokens=80, ignore_eos=True, seed=i)}))
        for i, name in enumerate(("Tom", "Anna", "Ben"))
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    again = model.generate("Once upon a time", max_tokens=430, ignore_eos=True, seed=3)
    for thread in threads:
        thread.join()
    assert (again.tokens, again.dropped_tokens) == (alone.tokens, alone.dropped_tokens)
    assert [found[i].tokens for i in range(3)] == [other.tokens for other in others]
    assert not any(other.truncated for other in others)


def test_a_long_prompt_keeps_its_beginning_and_its_end(model, plain):
    prompt = model.tokenize("Once upon a time ") + [50] * 1000 + model.tokenize(" The end.", add_bos=False)
    with pytest.raises(ContextFullError):
        plain.generate(prompt)
    done = model.generate(prompt, max_tokens=5, keep=3)
    assert done.truncated and done.usage.prompt_tokens == CONTEXT - 5
    assert done.dropped_tokens == len(prompt) - CONTEXT + 5
    with pytest.raises(ContextFullError):
        model.generate(prompt, max_tokens=5, keep=CONTEXT - 1)


def test_an_interrupted_shift_leaves_everything_as_it_was(model):
    ids = np.random.default_rng(9).integers(0, 900, CONTEXT).tolist()
    with model.session() as session:
        session.prefill(ids)
        before = session.logits.tobytes()
        for delay in (0.0, 0.0005, 0.002, 0.005, 0.01):
            timer = threading.Timer(delay, session.cancel)
            timer.start()
            try:
                session.shift(10)
            except CancelledError:
                assert (session.position, session.tokens) == (CONTEXT, ids)
            else:
                session.rewind(0)
                timer.join()
                session.clear_cancel()
                session.prefill(ids)
            timer.join()
            session.clear_cancel()
            assert session.logits.tobytes() == before
        assert session.shift(10) > 0


def test_a_second_shift_waits_for_the_first_and_not_for_ever(model):
    ids = np.random.default_rng(9).integers(0, 900, CONTEXT).tolist()
    with model.session() as one, model.session() as other, model.session() as decoder:
        one.prefill(ids)
        other.prefill(ids)
        decoder.prefill([1])
        results: list[object] = []
        first = threading.Thread(target=lambda: results.append(one.shift(0)))
        first.start()
        second_started = time.monotonic()
        try:
            other.shift(0, timeout=0.0)
        except WaitTimeoutError:
            assert other.tokens == ids
        assert time.monotonic() - second_started < 25
        for token in itertools.islice(itertools.cycle(range(5)), 20):
            decoder.decode(token)
        first.join()
        if other.position == CONTEXT:
            other.shift(0)
        assert one.logits.tobytes() == other.logits.tobytes()


def test_what_it_costs_and_what_it_needs(model, plain):
    with_, without = model.memory_plan(), plain.memory_plan()
    assert with_["staging"] == with_["kv_per_slot"] and without["staging"] == 0
    assert with_["total"] == without["total"] + with_["staging"]
    with plain.session() as session:
        session.prefill([1, 2, 3])
        with pytest.raises(ParameterError, match="context_policy"):
            session.shift()
    with model.session() as session:
        session.prefill([1, 2, 3])
        with pytest.raises(ParameterError, match="keep"):
            session.shift(3)
    for position in (0, 1):
        with model.session() as session:
            if position:
                session.prefill([1])
            with pytest.raises(ParameterError, match=f"keep=0 leaves no token of a session of {position}:") as caught:
                session.shift(0)
            assert (caught.value.parameter, session.position) == ("keep", position)
    for keep in (-1, CONTEXT, 1.5, "x"):
        with pytest.raises(ParameterError, match="keep"):
            model.generate("Once", keep=keep)
    with pytest.raises(ParameterError, match="keep needs"):
        plain.generate("Once", keep=3)
    with pytest.raises(ParameterError, match="context_policy"):
        muser.Model.tiny(context_policy="slide")
    assert len(model.slots) == 4 and model.slots.stats().free == 4


def test_a_chat_keeps_its_system_message(model):
    messages = [{"role": "system", "content": "You tell stories."}, {"role": "user", "content": "Tell me a story about a fox."}]
    stream = model.chat_stream(messages, max_tokens=500, ignore_eos=True, seed=1)
    system = model.tokenizer.stop_ids
    first = next(stream)
    assert first is not None
    ids = stream._generation.ids
    kept = turns(ids, 1, system)
    assert kept > 5
    for _ in stream:
        session = stream._generation._session
        if session is not None and stream._generation._dropped:
            assert session.tokens[:kept] == ids[:kept].tolist()
            break
    else:
        raise AssertionError("it never shifted")
    stream.close()
    assert stream.completion.truncated


def test_a_shifted_generation_is_saved_and_resumed(model, tmp_path):
    options = {"max_tokens": 430, "ignore_eos": True, "seed": 8}
    expected = model.generate("Once upon a time", **options)
    stream = model.stream("Once upon a time", **options)
    for n, _ in enumerate(stream):
        if n == 400:
            stream.save(tmp_path / "file")
            break
    stream.close()
    resumed = model.resume(tmp_path / "file")
    for _ in resumed:
        pass
    assert (resumed.completion.tokens, resumed.completion.dropped_tokens) == (expected.tokens, expected.dropped_tokens)
