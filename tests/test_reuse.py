"""What a user sees of reuse: the same text, and fewer tokens computed."""

from __future__ import annotations

import pytest
from engines import DEVICE

import muser
from muser.errors import ClosedError, ParameterError


@pytest.fixture(scope="module")
def model():
    with muser.Model.tiny(slots=2) as model:
        yield model


@pytest.fixture(scope="module")
def cold():
    with muser.Model.tiny(slots=2, prefix_cache_bytes=0) as model:
        yield model


def test_two_chats_side_by_side_pay_for_their_new_turns_only(model, cold):
    chats = [model.tokenize(text) for text in ("Once upon a time there was a small fox", "The king of the hill had three daughters and")]
    before = [0, 0]
    goes_on = model.tokenize(" And then the fox said", add_bos=False)
    for turn in range(4):
        for i, ids in enumerate(chats):
            warm = model.generate(ids, max_tokens=20, seed=turn, ignore_eos=True)
            plain = cold.generate(ids, max_tokens=20, seed=turn, ignore_eos=True)
            assert (warm.tokens, plain.usage.cached_tokens) == (plain.tokens, 0)
            if turn:
                # All of the turn before but the last token, which was sampled and never decoded; on Metal, whose decode
                # has kernels of its own, its prompt.
                assert warm.usage.cached_tokens == before[i] + (19 if DEVICE == "cpu" else 0)
                assert warm.timings.prompt_tokens == warm.usage.prompt_tokens - warm.usage.cached_tokens
            before[i] = len(ids)
            chats[i] = [*ids, *warm.tokens, *goes_on]
    assert model.stats()["reused_tokens"] > 0 == cold.stats()["reused_tokens"]


def test_a_fork_continues_on_its_own(model):
    with model.session() as one, model.session() as other:
        one.prefill("Once upon a time there was a")
        one.fork(into=other)
        assert other.tokens == one.tokens
        ids = [model.tokenize(word, add_bos=False)[0] for word in (" dog", " king")]
        a, b = one.decode(ids[0]), other.decode(ids[1])
        before = list(one.tokens)
        one.rewind(0)
        one.prefill(before)
        assert one.cached_tokens == len(before) - 1
        one.rewind(len(before) - 1)
        assert one.decode(ids[0]).tobytes() == a.tobytes() != b.tobytes()
        for wrong in (one, None, "x"):
            with pytest.raises(ParameterError, match="into"):
                one.fork(into=wrong)
    with pytest.raises(ClosedError):
        one.fork(into=other)


@pytest.mark.skipif(DEVICE != "cpu", reason="thousands of rows, and nothing of the device in it")
def test_how_far_back_a_session_on_reused_rows_can_go(model, cold):
    """docs/sessions.md, Rewind: 512 rows (and one) before the highest position that its rows reached."""
    ids = [5, 6, 7, 8, 9] * 300
    for warm, longer, reused in ((model, 400, True), (model, 512, True), (cold, 400, False)):
        with warm.session() as one, warm.session() as other:  # both slots, so that the next session gets these rows
            one.prefill(ids[: 900 + longer])
            other.prefill([1])
        lowest = 900 + (longer if reused else 0) - 513
        with warm.session(prompt=ids[:900]) as session:
            session.prefill(ids[:900])
            assert session.cached_tokens == (899 if reused else 0)
            for to in (1, lowest - 1):
                with pytest.raises(ParameterError, match=f"to must be at least {lowest},"):
                    session.rewind(to)
            session.rewind(lowest)
            session.rewind(0)
            session.prefill(ids[:3])
            assert session.position == 3


def test_sessions_of_two_models_do_not_fork_into_each_other(model, cold):
    with model.session() as one, cold.session() as other:
        one.prefill("Once")
        with pytest.raises(ParameterError, match="same model"):
            one.fork(into=other)
