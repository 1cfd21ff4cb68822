"""Broken or unsupported vocabulary data: a typed error that names the key and the value; nothing else ever."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_vocabularies import KEY, metadata, small, tokenizer

from muser.errors import ModelFormatError, MuserError, UnsupportedModelError
from muser.text import Tokenizer

SPM = {"model": "llama", "scores": [0.0, 0.0], "merges": None}
BROKEN = {
    "no model": ({"model": None}, "model is missing"),
    "model of a wrong type": ({"model": 3}, "model is 3"),
    "no tokens": ({"tokens": None}, "tokens is missing"),
    "empty": ({"tokens": [], "token_type": []}, "tokens is empty"),
    "tokens that are no array": ({"tokens": "ab"}, "tokens is 'ab'"),
    "a token that is not UTF-8": ({"tokens": ["a", b"\xff"]}, r"tokens\[1\] is b'\\xff'"),
    "a token that is a number": ({"tokens": ["a", 7]}, r"tokens\[1\] is 7"),
    "a token twice": ({"tokens": ["a", "a"]}, "tokens has 'a' twice, as 0 and 1"),
    "types too short": ({"token_type": [1]}, "token_type has 1 entries for 2 tokens"),
    "types too long": ({"token_type": [1, 1, 1]}, "token_type has 3 entries for 2 tokens"),
    "an unknown type": ({"token_type": [1, 9]}, r"token_type\[1\] is 9"),
    "a type of a wrong type": ({"token_type": [1, "x"]}, r"token_type\[1\] is 'x'"),
    "a bad byte token": ({"token_type": [1, 6]}, r"tokens\[1\] is 'b', but its type is BYTE"),
    "no merges": ({"merges": None}, "merges is missing"),
    "bos out of range": ({"bos_token_id": 2}, "bos_token_id is 2, but the vocabulary has 2 tokens"),
    "eos negative": ({"eos_token_id": -1}, "eos_token_id is -1"),
    "eot of a wrong type": ({"eot_token_id": "b"}, "eot_token_id is 'b'"),
    "eom is a bool": ({"eom_token_id": True}, "eom_token_id is True"),
    "add_bos without bos": ({"add_bos_token": True}, "add_bos_token is true, but .*bos_token_id is missing"),
    "add_bos of a wrong type": ({"add_bos_token": "yes"}, "add_bos_token is 'yes'"),
    "no scores": ({**SPM, "scores": None}, "scores is missing"),
    "scores too short": ({**SPM, "scores": [0.0]}, "scores has 1 entries for 2 tokens"),
    "a score that is no number": ({**SPM, "scores": [0.0, float("nan")]}, r"scores\[1\] is nan"),
}  # fmt: skip
BROKEN_LATER = {
    "a merge of unknown pieces": ({"merges": ["a z"]}, r"merges\[0\] is 'a z'"),
    "a merge into an unknown piece": ({"merges": ["a b"]}, r"merges\[0\] is 'a b'"),
    "a merge without a space": ({"merges": ["ab"]}, r"merges\[0\] is 'ab'"),
    "a merge of three": ({"merges": ["a b c"]}, r"merges\[0\] is 'a b c'"),
    "a merge into a control token": (
        {"tokens": ["a", "b", "ab"], "token_type": [1, 1, 3], "merges": ["a b"]},
        r"merges\[0\] is 'a b'",
    ),
    "sentencepiece without bytes": (SPM, "0 of the 256 byte tokens"),
}


def changed(changes: dict) -> dict:
    return small(["a", "b"], [1, 1]) | {KEY + key: value for key, value in changes.items()}


@pytest.mark.parametrize(("changes", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_data_is_refused_at_once(changes: dict, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message) as caught:
        Tokenizer(changed(changes), path="model.gguf")
    assert caught.value.path == "model.gguf"
    assert KEY in str(caught.value)


@pytest.mark.parametrize(("changes", "message"), BROKEN_LATER.values(), ids=BROKEN_LATER)
def test_broken_merges_are_refused_when_first_used(changes: dict, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message) as caught:
        Tokenizer(changed(changes), path="model.gguf").encode("a")
    assert caught.value.path == "model.gguf"


@pytest.mark.parametrize("model", ["bert", "t5", "rwkv", "plamo2", "none", ""])
def test_an_unsupported_model_is_named(model: str) -> None:
    with pytest.raises(UnsupportedModelError, match=f"tokenizer.ggml.model is '{model}'"):
        Tokenizer(changed({"model": model}))


@pytest.mark.parametrize("pre", ["tekken", "deepseek-v3", "gemma4", "qwen35", "GPT-2"])
def test_an_unsupported_pre_tokenizer_is_named(pre: str) -> None:
    with pytest.raises(UnsupportedModelError, match=f"tokenizer.ggml.pre is '{pre}'"):
        Tokenizer(changed({"pre": pre}))


values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.binary(max_size=3),
    st.lists(st.one_of(st.integers(-1, 7), st.text(max_size=2), st.floats(), st.none()), max_size=3),
)  # fmt: skip
KEYS = [
    "model",
    "pre",
    "tokens",
    "token_type",
    "scores",
    "merges",
    "bos_token_id",
    "eos_token_id",
    "eot_token_id",
]
KEYS += ["unknown_token_id", "padding_token_id", "add_bos_token", "add_space_prefix"]


@settings(max_examples=400, deadline=None)
@given(key=st.sampled_from(KEYS), value=values, model=st.sampled_from(["gpt2", "llama"]))
def test_any_value_of_any_key_gives_a_tokenizer_or_a_typed_error(key: str, value: object, model: str) -> None:
    source = metadata("toy_sentencepiece", model=model, merges=[]) | {KEY + key: value}
    try:
        Tokenizer(source).encode("ab \n")
    except MuserError as error:
        assert KEY in str(error) or "cannot spell" in str(error)


def test_numbers_may_come_as_numpy_arrays() -> None:
    source = metadata("toy_sentencepiece")
    arrays = {key: np.asarray(source[KEY + key]) for key in ("token_type", "scores")}
    plain = tokenizer("toy_sentencepiece").encode("the dog")
    assert Tokenizer(metadata("toy_sentencepiece", **arrays)).encode("the dog") == plain


def test_types_may_be_missing() -> None:
    fast = Tokenizer(changed({"token_type": None}))
    assert fast.encode("ab") == [0, 1]
    assert not fast.is_control(0)


def test_a_padding_id_out_of_range_is_ignored() -> None:
    """Real files have one just past the vocabulary; nothing here pads."""
    assert Tokenizer(changed({"padding_token_id": 2})).pad_id is None


def stop_names(source: dict) -> set[str]:
    fast = Tokenizer(source)
    return {fast.token_text(token) for token in fast.stop_ids}


def test_muse_does_not_stop_at_the_end_of_a_message_even_if_the_file_says_so() -> None:
    eom = tokenizer("random_muse").token_id("<|eom|>")
    assert stop_names(metadata("random_muse", eom_token_id=eom)) == {"<|end_of_text|>", "<|eot|>"}
    other = metadata("random_muse", eom_token_id=eom) | {"general.architecture": "llama"}
    assert stop_names(other) == {"<|end_of_text|>", "<|eot|>", "<|eom|>"}


def test_well_known_ends_stop_only_where_they_are_control_tokens() -> None:
    names = [
        "<|im_end|>",
        "<|endoftext|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<end_of_turn>",
        "</s>",
        "<eos>",
        "<|user|>",
    ]
    assert stop_names(small(names, [3] * 8)) == set(names) - {"<|user|>"}
    assert stop_names(small(names, [4] * 8)) == set(names) - {"<|user|>", "</s>", "<eos>"}


def test_an_end_that_the_file_names_always_stops() -> None:
    assert stop_names(small(["a", "b", "c"], [1, 1, 1], eos_token_id=1, eot_token_id=2)) == {"b", "c"}
