"""Explicit sessions: prefill, decode, look, rewind, cancel, and groups packed by hand. On the fake engine."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from fake_engine import BOS, VOCAB, fake_model, free_slots, wait_until

import muser
from muser import (
    BusyError,
    CancelledError,
    ClosedError,
    ContextFullError,
    ParameterError,
    Sampler,
    SamplingParams,
    WaitTimeoutError,
)


def test_a_generation_by_hand_equals_generate():
    model = fake_model()
    params = SamplingParams(temperature=0.9, top_k=20, seed=4)
    expected = model.generate("hello", params, max_tokens=20).tokens
    sampler = Sampler(params)
    with model.session() as session:
        session.prefill("hello")
        tokens = [session.sample(sampler)]
        while len(tokens) < 10:
            tokens.append(sampler.sample(session.decode(tokens[-1])))
        while len(tokens) < 20:
            session.decode(tokens[-1])
            tokens.append(session.sample(sampler))
    assert tuple(tokens) == expected


def test_what_a_session_shows():
    model = fake_model(context=100)
    with model.session() as session:
        assert (session.logits, session.tokens, session.position, session.context) == (None, [], 0, 100)
        session.prefill("ab")
        assert (session.tokens, session.position) == ([BOS, 97, 98], 3)
        logits = session.decode(99)
        assert logits.shape == (VOCAB,) and logits.dtype == np.float32 and not logits.flags.writeable
        assert np.array_equal(logits, session.logits)
        assert session.tokens == [BOS, 97, 98, 99]
        session.rewind(to=2)
        assert (session.tokens, session.logits) == ([BOS, 97], None)
        with pytest.raises(ParameterError):
            session.rewind(to=3)
        with pytest.raises(ParameterError):
            session.rewind(to=-1)
        with pytest.raises(ParameterError):
            session.sample(Sampler())


def test_bos_only_at_the_beginning():
    with fake_model().session() as session:
        session.prefill("a")
        session.prefill("b")
        session.prefill([99])
        session.prefill(np.array([100], np.uint8))
        assert session.tokens == [BOS, 97, 98, 99, 100]


def test_exactly_the_context_fits():
    with fake_model(context=10).session() as session:
        with pytest.raises(ContextFullError, match="11.*10") as caught:
            session.prefill([1] * 11)
        assert (caught.value.position, caught.value.capacity, session.position) == (0, 10, 0)
        session.prefill([1] * 9)
        session.decode(1)
        for call in (lambda: session.decode(1), lambda: session.prefill([1])):
            with pytest.raises(ContextFullError):
                call()
        assert session.position == 10


@pytest.mark.parametrize("token", [-1, VOCAB, 1.5, "a", None, True, 2**40])
def test_bad_tokens(token):
    with fake_model().session() as session:
        with pytest.raises(ParameterError, match="token") as caught:
            session.decode(token)
        assert caught.value.parameter == "token"
        assert session.position == 0


def test_cancel_during_prefill_and_after():
    model = fake_model(delay=0.02, context=4096)
    with model.session() as session:
        at = []
        threading.Timer(0.05, lambda: (session.cancel(), at.append(model.engine.retained(0)))).start()
        with pytest.raises(CancelledError):
            session.prefill([1] * 4000)
        wait_until(lambda: at)
        assert session.position % model.engine.chunk == 0  # whole chunks stay
        assert session.position <= at[0] + model.engine.chunk  # none begins after the cancellation
        with pytest.raises(CancelledError):  # it stays cancelled
            session.decode(1)
        session.clear_cancel()
        session.decode(1)
    with model.session() as fresh:
        fresh.decode(1)  # a cancellation ends with its permit


def test_timeout_of_a_call():
    with fake_model(delay=0.5).session() as session:
        with pytest.raises(WaitTimeoutError):
            session.prefill([1] * 400, timeout=0.75)
        assert session.position == 64
        with pytest.raises(ParameterError):
            session.decode(1, timeout=-1)


def test_two_threads_in_one_session():
    with fake_model(delay=0.1).session() as session:
        thread = threading.Thread(target=session.prefill, args=([1],))
        thread.start()
        wait_until(lambda: session._core.engine().active == 1)
        for call in (lambda: session.decode(1), lambda: session.position, lambda: session.logits, lambda: session.rewind(0)):
            with pytest.raises(BusyError):
                call()
        thread.join()
        assert session.position == 1


def test_a_released_session_is_inert_and_cannot_touch_the_next_one():
    model = fake_model(slots=1)
    permit = model.session()
    old = permit.session
    permit.release()
    permit.release()
    with model.session() as new:
        new.prefill("x")
        for call in (lambda: old.decode(1), lambda: old.prefill("y"), lambda: old.tokens, lambda: old.cancel(), lambda: old.rewind(0)):
            with pytest.raises(ClosedError, match="permit"):
                call()
        permit = old = None  # and neither can its end
        assert new.tokens == [BOS, 120]
        new.decode(1)


def test_release_waits_for_the_driver():
    model = fake_model(slots=1, delay=0.02, context=4096)
    permit = model.session()
    errors = []

    def drive():
        try:
            permit.session.prefill([1] * 4000)
        except CancelledError as error:
            errors.append(error)

    thread = threading.Thread(target=drive)
    thread.start()
    wait_until(lambda: model.engine.active == 1)
    permit.release()
    assert model.engine.active == 0
    assert free_slots(model) == 1
    thread.join()
    assert len(errors) == 1
    with model.session() as session:
        assert session.position == 0


def test_permits_start_empty():
    model = fake_model(slots=1)
    with model.session() as session:
        session.prefill("secret")
    with model.session() as session:
        assert (session.tokens, session.logits) == ([], None)


def test_an_exception_gives_the_slot_back():
    model = fake_model(slots=1)
    with pytest.raises(ZeroDivisionError), model.session() as session:
        session.prefill("x")
        1 / 0  # noqa: B018
    assert free_slots(model) == 1


# -- groups --------------------------------------------------------------------------------------------------------


def test_decode_group_equals_solo_decodes():
    model = fake_model()
    permits = [model.session() for _ in range(4)]
    sessions = [p.session for p in permits]
    for n, session in enumerate(sessions):
        session.prefill([n + 1] * (n + 1))
    logits = muser.decode_group([(s, 10 + n) for n, s in enumerate(sessions)])
    assert model.engine.log[-1] == ("group", (0, 1, 2, 3), (10, 11, 12, 13))
    for permit in permits:
        permit.release()
    for n in range(4):
        with model.session() as session:
            session.prefill([n + 1] * (n + 1))
            assert np.array_equal(session.decode(10 + n), logits[n])


def test_groups_that_are_refused():
    model, other = fake_model(), fake_model()
    a, b = model.session().session, model.session().session
    stranger, ended = other.session().session, model.session()
    ended.release()
    bad = [
        ([], ParameterError), ([(a, 1)] * 2, ParameterError), ([(a, 1), (stranger, 1)], ParameterError),
        ([(a, 1), (b, VOCAB)], ParameterError), ([(a, 1), (b, None)], ParameterError),
        ([(x, 1) for x in (a, b, a, b, a)], ParameterError), ([(a, 1), (ended.session, 1)], ClosedError),
    ]  # fmt: skip
    for rows, error in bad:
        with pytest.raises(error):
            muser.decode_group(rows)
    assert (a.position, b.position) == (0, 0)
    muser.decode_group([(a, 1)])
    assert a.position == 1
    with a._drive, pytest.raises(BusyError):
        muser.decode_group([(b, 1), (a, 1)])
    muser.decode_group([(b, 1), (a, 1)])
