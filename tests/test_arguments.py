"""Every argument of a wrong type or value is a ParameterError that names it, and nothing is printed about it."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from fake_engine import fake_model

import muser
from muser import MuserError, ParameterError, Sampler


@pytest.fixture(scope="module")
def model():
    with muser.Model.tiny(context=64, slots=2, threads=1) as model:
        yield model


class Oddity:
    def __repr__(self) -> str:
        return "x" * 100_000


class Mute:
    def __repr__(self) -> str:
        raise ZeroDivisionError


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


UNPRINTABLE = (Mute(), nested(100_000), 10**5000)  # Python prints no integer of so many digits


BAD_LOGITS = {
    "None": None,
    "text": "abc",
    "bytes": bytes(16),
    "scalar": 5.0,
    "2-D": np.ones((2, 2), np.float32),
    "ragged": [[1.0], [1.0, 2.0]],
    "bool": np.array([True, False]),
    "complex": np.array([1 + 2j]),
    "dates": np.array(["2020"], "M8[Y]"),
    "objects": [None, 1.0],
    "masked": np.ma.array(np.ones(4, np.float32), mask=[0, 1, 0, 0]),
    "beyond float32": np.array([1.0, 1e300]),
}


@pytest.mark.parametrize("logits", BAD_LOGITS.values(), ids=BAD_LOGITS)
def test_sampler_refuses_what_is_no_row_of_numbers(logits):
    sampler, fresh = Sampler(seed=1), Sampler(seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ParameterError, match="logits") as caught:
            sampler.sample(logits)
    assert caught.value.parameter == "logits"
    row = np.linspace(0, 1, 50, dtype=np.float32)
    assert sampler.sample(row) == fresh.sample(row)  # no draw was taken


def test_sampler_names_the_bad_element():
    for logits, index in (([1.0, 1e300], 1), (np.array([0, 0, np.nan], np.float32), 2)):
        with pytest.raises(ParameterError) as caught:
            Sampler(seed=1).sample(logits)
        assert caught.value.index == index


def test_sampler_takes_other_numbers():
    row = [0, 3, 1]
    for logits in (row, np.array(row), np.array(row, np.float64), np.array(row, np.float16), np.array([*row, 9])[:3]):
        assert Sampler(temperature=0).sample(logits) == 1


def bad_calls(model, session):
    other = fake_model().session().session
    yield "sampler", lambda: session.sample(None)
    yield "sampler", lambda: session.sample(Sampler(seed=1)._native)
    for rows in (None, 5, "ab", [session], [(None, 1)], [(session,)], [(session, 1, 2)], [], [(session, 1), (other, 1)]):
        yield "rows", lambda rows=rows: muser.decode_group(rows)
    for token in (None, 1.5, True, "a", -1, 10**9):
        yield "rows", lambda token=token: muser.decode_group([(session, token)])
        yield "token", lambda token=token: session.decode(token)
        yield "tokens", lambda token=token: session.prefill([1, token])
        yield "tokens", lambda token=token: model.detokenize([1, token])
        yield "prompt", lambda token=token: model.generate([1, token])
    for tokens in (None, 5, b"a", {1}, np.ones((1, 1), int), np.ones(2), np.ma.array([1, 2], mask=[0, 1])):
        yield "tokens", lambda tokens=tokens: session.prefill(tokens)
        yield "tokens", lambda tokens=tokens: model.detokenize(tokens)
    yield "tokens", lambda: model.detokenize("a")
    yield "skip_special", lambda: model.detokenize([1], skip_special="no")
    for text in (None, 5, b"a", ["a"], "\ud800"):
        yield "text", lambda text=text: model.tokenize(text)
    yield "add_bos", lambda: model.tokenize("a", add_bos="x")
    yield "parse_special", lambda: model.tokenize("a", parse_special="x")
    yield "params", lambda: model.generate("a", {})
    yield "stop_token_ids", lambda: model.generate("a", stop_token_ids=5)
    yield "stop_token_ids", lambda: model.generate("a", stop_token_ids=[1, None])
    for path in (None, 5, ["a"], "a\0b", b"a\0b", "\ud800"):
        yield "path", lambda path=path: muser.Model.load(path)
    for value in (None, 5, "", "\ud800", "x" * 10_000, Oddity()):
        yield "device", lambda value=value: muser.Model.tiny(device=value)
        yield "kv_dtype", lambda value=value: muser.Model.tiny(kv_dtype=value)
    yield "context", lambda: muser.Model.tiny(context=1)
    yield "prompt", lambda: model.generate("\ud800")
    yield "texts", lambda: model.embed(["a", "\ud800"])
    yield "tokens", lambda: session.prefill("\ud800")
    for value in UNPRINTABLE:
        for name in ("top_k", "temperature", "stop", "stop_token_ids", "seed", "logit_bias"):
            yield name, lambda name=name, value=value: model.generate("a", **{name: value})
        yield "prompt", lambda value=value: model.generate([1, value])
        yield "timeout", lambda value=value: model.generate("a", timeout=value)
        yield "n", lambda value=value: model.generate_n("a", value)
        yield "messages", lambda value=value: model.chat(value)
        yield "messages", lambda value=value: model.chat([{"role": value, "content": "a"}])
        yield "tools", lambda value=value: model.chat([{"role": "user", "content": "a"}], tools=[value])
        yield "slots", lambda value=value: muser.Model.tiny(slots=value)
    for value in UNPRINTABLE[:2]:
        yield "messages", lambda value=value: model.chat([{"role": "user", "content": "a", "x": value}])
    yield "messages", lambda: model.chat([{"role": "user", "content": "a", "x" * 10_000: {1: 2}}])
    for call in (muser.Model.load, muser.memory_plan, session.save, session.restore, model.restore, model.resume):
        for empty in ("", b""):
            yield "path", lambda call=call, empty=empty: call(empty)
    for breakers in (["\ud800"], ["x", "a\ud800"]):
        yield "dry_sequence_breakers", lambda breakers=breakers: muser.SamplingParams(dry_sequence_breakers=breakers)
    yield from bad_calls_of_parts(model)


def bad_calls_of_parts(model):
    """Of the objects that a model hands out."""
    tokenizer, constraint = model.tokenizer, model.constraint(muser.Grammar.regex("[ab]+c"))
    for value in (None, 5, 1.5, [], {}, b"x", np.zeros(3)):
        yield "text", lambda value=value: tokenizer.token_id(value)
        yield "text", lambda value=value: tokenizer.control_parts(value)
    for value in (None, 1.5, "x", [], {}, True, [1], np.zeros(3), *UNPRINTABLE[:2]):
        yield "token", lambda value=value: tokenizer.is_control(value)
        yield "token", lambda value=value: tokenizer.token_bytes(value)
        yield "token", lambda value=value: tokenizer.token_text(value)
        yield "token", lambda value=value: constraint.consume(value)
        yield "count", lambda value=value: constraint.rollback(value)
    for value in (None, 5, 1.5, "x", b"x", object(), [None], ["a"], [[1]], [-1], [10**30], np.zeros(3), *UNPRINTABLE):
        yield "tokens", lambda value=value: constraint.accepts(value)
        yield "tokens", lambda value=value: constraint.replay(value)
        yield "ends", lambda value=value: model.constraint(muser.Grammar.regex("a"), ends=5 if value is None else value)
        yield "ids", lambda value=value: tokenizer.decode(value)
    for value in (None, 5, 1.5, "x", b"x", object(), [None], ["a", 1.5], [[1]]):
        yield "parts", lambda value=value: tokenizer.encode_parts(value)
    yield "add_bos", lambda: tokenizer.encode_parts(["a"], add_bos="x")
    yield "grammar", lambda: model.constraint("a")


def test_wrong_arguments_are_parameter_errors_of_a_line(model):
    with model.session() as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        session.prefill("a")
        position = session.position
        for number, (parameter, call) in enumerate(bad_calls(model, session)):
            with pytest.raises(MuserError) as caught:
                call()
                pytest.fail(f"call {number}, {parameter}: accepted")
            error = caught.value
            assert isinstance(error, ParameterError), (number, error)
            assert error.parameter == parameter and parameter in str(error), (number, error)
            assert len(str(error)) < 250, (number, error)
        assert session.position == position


def test_a_bad_element_is_named_by_its_index(model):
    with model.session() as session:
        for call in (
            lambda: session.prefill([1, 2.5]),
            lambda: session.prefill(np.array([1, -1])),
            lambda: model.detokenize([1, True]),
            lambda: model.generate([1, None]),
            lambda: model.generate("a", stop_token_ids=[1, 2.5]),
            lambda: model.generate("a", stop_token_ids=[1, 10**9]),
            lambda: model.generate("a", dry_sequence_breakers=["x", (1, -5)]),
            lambda: model.generate("a", dry_sequence_breakers=["x", (1, 10**6)]),
            lambda: muser.decode_group([(session, 1), (session,)]),
        ):
            with pytest.raises(ParameterError, match=r"\[1\] must (be|hold) ") as caught:
                call()
            assert caught.value.index == 1


def test_an_element_inside_an_element_is_its_field(model):
    with model.session() as session, model.session() as other:
        for call, parameter, field in (
            (lambda: model.embed(["a", 5]), "texts", None),
            (lambda: model.embed([[1], [10**9]]), "texts", "[0]"),
            (lambda: muser.decode_group([(session, 1), (other, 10**9)]), "rows", "token"),
        ):
            with pytest.raises(ParameterError, match=rf"{parameter}\[1\]") as caught:
                call()
            error = caught.value
            assert (error.parameter, error.index, error.field) == (parameter, 1, field)
            assert error.value in (5, 10**9)


def test_a_session_without_logits_says_so(model):
    with model.session() as session, pytest.raises(ParameterError, match="after a prefill or decode") as caught:
        session.sample(Sampler(seed=1))
    assert caught.value.parameter == "session"


def test_a_path_need_not_be_utf8(model, tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff\xfe.gguf"
    os.symlink(model.path, name)
    for path in (name, os.fsdecode(name)):
        with muser.Model.load(path, context=64, threads=1) as loaded:
            assert loaded.path == os.fsdecode(name)
            assert loaded.generate("a", max_tokens=4, seed=1).tokens == model.generate("a", max_tokens=4, seed=1).tokens


def test_what_has_ended_cannot_be_entered():
    model = fake_model()
    permit = model.session()
    with permit:
        pass
    with pytest.raises(muser.ClosedError):
        permit.__enter__()
    model.close()
    with pytest.raises(muser.ClosedError):
        model.__enter__()


def test_every_public_object_has_a_repr_of_its_own():
    model = fake_model()
    permit = model.session()
    stream = model.stream("a", max_tokens=1, seed=3)
    for thing in (permit, permit.session, model.slots, stream, Sampler(seed=3), model):
        assert repr(thing).startswith(f"<muser.{type(thing).__name__}") and " at 0x" not in repr(thing)
    permit.release()
    assert "ended" in repr(permit.session) and "released" in repr(permit)


def test_the_prompt_of_a_session_chooses_the_slot_and_nothing_more():
    model = fake_model()
    with model.session() as first, model.session() as second:
        second.prefill("The cat sat")
        wanted = second.slot
        assert first.slot != wanted
    with model.session(prompt="The cat ran") as session:
        assert (session.slot, session.position, session.tokens) == (wanted, 0, [])
