"""SamplingParams refuses what it does not mean, where it is built, and says what and why."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from fake_engine import fake_model

from muser import ParameterError, SamplingParams

NAN, INF = math.nan, math.inf

BAD = [
    *(("temperature", v) for v in (-0.001, NAN, INF, -INF, "1", None, True, 1e300, 10**400, [1.0])),
    *(("top_k", v) for v in (-2, 1.5, "3", None, True, 2**31, np.bool_(True))),
    *(("top_p", v) for v in (0, -0.1, 1.0001, NAN, INF, "1", None, False)),
    *(("min_p", v) for v in (-0.1, 1.1, NAN, None, "0", True)),
    *(("dynatemp_range", v) for v in (-1, NAN, True)), ("dynatemp_exponent", 0), ("typical_p", 0), ("typical_p", 1.5),
    ("top_n_sigma", -1), ("top_n_sigma", INF), ("xtc_probability", 1.1), ("xtc_threshold", 0), ("repetition_penalty", 0),
    ("repetition_penalty", None), ("presence_penalty", NAN), ("frequency_penalty", INF), ("penalty_last_n", -2),
    ("penalty_last_n", 1.5), ("dry_multiplier", -1), ("dry_base", 0.5), ("dry_allowed_length", -1), ("dry_penalty_last_n", "1"),
    *(("dry_sequence_breakers", v) for v in ("\n", None, [""], [5], [()], [b"x"])), ("dry_sequence_breakers", [(-1,)]),
    *(("mirostat", v) for v in (3, -1, True, 2.0)), ("mirostat_tau", -1), ("mirostat_eta", NAN), ("adaptive_target", 1.5),
    ("adaptive_decay", 1), *(("logit_bias", v) for v in (5, "5", [5], {-1: 0}, {"a": 0}, {0: INF}, {0: NAN}, {0: None}, {1.5: 0}, [(1, 2), (1, 3)])),
    *(("samplers", v) for v in ("top_k", None, ["top_q"], ["top_k", "top_k"], [3])),
    *(("logits_processors", v) for v in (len, None, "x", [3])),
    *(("seed", v) for v in (-1, 2**64, 1.0, "7", True)),
    *(("max_tokens", v) for v in (-1, 2**31, 1.0, "7", True)),
    *(("stop_token_ids", v) for v in (5, "5", b"5", None, [-1], [1.5], [True], ["a"])),
    *(("ignore_eos", v) for v in (1, 0, None, "yes")),
    *(("stop", v) for v in (5, b"x", None, "", ["a", ""], ["a", 5], [b"x"], "\ud800", ["a", "b\udfff"])),
    *((name, v) for name in ("include_stop", "logprobs", "echo") for v in (1, 0, None, "yes")),
    *(("min_tokens", v) for v in (-1, 1.0, None, True)),
    *(("top_logprobs", v) for v in (-1, 21, 1.0, None, True)),
]


@pytest.mark.parametrize(("name", "value"), BAD, ids=lambda v: repr(v)[:20])
def test_bad_values_are_named(name, value):
    with pytest.raises(ParameterError, match=rf"^{name}(\[\d\])? must be") as caught:
        SamplingParams(**{name: value})
    assert caught.value.parameter == name
    assert isinstance(caught.value, ValueError)


GOOD = [
    ("temperature", 0, 0.0), ("temperature", 1e-6, 1e-6), ("temperature", np.float32(0.5), 0.5), ("temperature", np.int64(2), 2.0),
    ("top_k", -1, -1), ("top_k", np.int32(40), 40), ("top_k", 2**31 - 1, 2**31 - 1),
    ("top_p", 1, 1.0), ("top_p", 1e-9, 1e-9), ("min_p", 1, 1.0), ("min_p", 0, 0.0),
    ("logit_bias", {np.int64(3): np.float32(0.5), 4: -INF}, ((3, 0.5), (4, -INF))), ("logit_bias", [(1, 2)], ((1, 2.0),)),
    ("samplers", ["temperature", "top_k"], ("temperature", "top_k")), ("samplers", (), ()),
    ("dry_sequence_breakers", ["x", [np.int32(1), 2]], ("x", (1, 2))), ("dry_sequence_breakers", [], ()),
    ("logits_processors", [len], (len,)), ("mirostat", np.int32(2), 2), ("adaptive_target", -1, -1.0), ("penalty_last_n", -1, -1),
    ("seed", 0, 0), ("seed", 2**64 - 1, 2**64 - 1), ("seed", np.uint64(2**64 - 1), 2**64 - 1), ("seed", None, None),
    ("max_tokens", 0, 0), ("max_tokens", None, None), ("max_tokens", np.int64(9), 9),
    ("stop_token_ids", [3, np.int32(4)], (3, 4)), ("stop_token_ids", np.array([1, 2]), (1, 2)), ("stop_token_ids", {7}, (7,)),
    ("stop_token_ids", (), ()), ("ignore_eos", np.bool_(True), True),
    ("stop", "ab", ("ab",)), ("stop", ["a", "b", "a"], ("a", "b")), ("stop", iter("xy"), ("x", "y")), ("min_tokens", np.int8(3), 3),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "kept"), GOOD, ids=lambda v: repr(v)[:20])
def test_good_values_are_kept_as_plain_python(name, value, kept):
    stored = getattr(SamplingParams(**{name: value}), name)
    assert stored == kept
    assert type(stored) is type(kept)


def test_immutable_hashable_and_comparable():
    params = SamplingParams(temperature=0.5, stop_token_ids=[1])
    with pytest.raises(dataclasses.FrozenInstanceError):
        params.temperature = 1.0  # type: ignore[misc]
    assert params == SamplingParams(temperature=0.5, stop_token_ids=(1,))
    assert len({params, SamplingParams(temperature=0.5, stop_token_ids=(1,))}) == 1


def test_what_does_not_go_together_is_refused():
    for fields, name in [
        ({"mirostat": 2, "top_k": 4}, "mirostat"),
        ({"mirostat": 1, "adaptive_target": 0.5}, "mirostat"),
        ({"samplers": ("top_k",), "min_p": 0.1}, "samplers"),
    ]:
        with pytest.raises(ParameterError) as caught:
            SamplingParams(**fields)
        assert caught.value.parameter == name


def test_unknown_keywords_are_type_errors():
    model = fake_model()
    with pytest.raises(TypeError, match="temprature"):
        SamplingParams(temprature=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="temprature"):
        model.generate("x", temprature=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="temprature"):
        model.stream("x", SamplingParams(), temprature=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="temprature"):
        model.astream("x", temprature=1)  # type: ignore[call-arg]
    with pytest.raises(ParameterError, match="SamplingParams"):
        model.generate("x", {"temperature": 1})  # type: ignore[arg-type]


def test_keywords_replace_fields_of_params():
    model = fake_model()
    params = SamplingParams(max_tokens=9, seed=1)
    assert len(model.generate("x", params).tokens) == 9
    assert len(model.generate("x", params, max_tokens=4).tokens) == 4
    with pytest.raises(ParameterError, match="max_tokens"):
        model.generate("x", params, max_tokens=-1)


def test_error_messages_stay_short():
    with pytest.raises(ParameterError) as caught:
        SamplingParams(stop_token_ids="x" * 100_000)
    assert len(str(caught.value)) < 300


def test_every_field_is_a_keyword_of_generate():
    from muser.params import SamplingOverrides

    fields = {field.name for field in dataclasses.fields(SamplingParams)}
    assert set(SamplingOverrides.__annotations__) == fields


def test_a_wrong_key_of_logit_bias_is_told_from_a_wrong_value():
    for key in ("the", 1.5, -1):
        with pytest.raises(ParameterError, match=r"must be a mapping whose keys are token ids, 0\.\.2147483647, not"):
            SamplingParams(logit_bias={key: 1.0})
    with pytest.raises(ParameterError, match="must be of numbers"):
        SamplingParams(logit_bias={1: "much"})


@pytest.mark.parametrize(
    "name",
    ["temperature", "dynatemp_range", "dynatemp_exponent", "top_n_sigma", "repetition_penalty", "presence_penalty", "frequency_penalty",
     "dry_multiplier", "dry_base", "mirostat_tau", "mirostat_eta"],
)  # fmt: skip
def test_a_number_beyond_float32_is_told_the_limit(name):
    with pytest.raises(ParameterError, match=r"3\.4e38, not 1e\+39") as caught:
        SamplingParams(**{name: 1e39})
    assert "finite" not in str(caught.value)
    with pytest.raises(ParameterError, match=r"3\.4e38, or -inf, not 1e\+39"):
        SamplingParams(logit_bias={1: 1e39})
