"""Encoding: any text comes back, user text never steers the model, long texts are cut where it does not matter."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_vocabularies import DATA, PRE_TOKENIZERS, metadata, small, tokenizer

from muser.errors import ParameterError
from muser.text import Tokenizer
from muser.text.chunks import chunks

CORPUS = json.loads((DATA / "corpus.json").read_text())
any_text = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(CORPUS), max_size=6).map("".join))
every_pre = pytest.mark.parametrize("pre", PRE_TOKENIZERS)


@every_pre
@settings(max_examples=80, deadline=None)
@given(text=any_text)
def test_byte_level_text_comes_back(pre: str, text: str) -> None:
    fast = tokenizer("random_muse", pre)
    for parse_special in (False, True):
        ids = fast.encode(text, add_bos=False, parse_special=parse_special)
        assert fast.decode(ids) == text


@settings(max_examples=200, deadline=None)
@given(text=any_text)
def test_sentencepiece_text_comes_back(text: str) -> None:
    """But for U+2581, which is how the vocabulary writes a space, and a space of its own after a literal token."""
    fast = Tokenizer(metadata("toy_sentencepiece", add_space_prefix=False))
    assert fast.decode(fast.encode(text, add_bos=False)) == text.replace("\u2581", " ")


@settings(max_examples=200, deadline=None)
@given(parts=st.lists(st.one_of(st.text(max_size=5), st.integers(0, 40)), max_size=8))
@pytest.mark.parametrize("name", ["random_muse", "toy_sentencepiece"])
def test_typed_text_never_becomes_a_control_token(name: str, parts: list[str | int]) -> None:
    fast = tokenizer(name)
    control = [token for token in range(fast.vocab_size) if fast.is_control(token)]
    names = [fast.token_text(token) for token in control]
    text = "".join(part if isinstance(part, str) else names[part % len(names)] for part in parts)
    assert not any(map(fast.is_control, fast.encode(text, add_bos=False)))


def test_a_control_token_is_made_neither_by_merges_nor_by_a_whole_word() -> None:
    tokens, types = ["a", "b", "c", "ab", "abc", "<unk>"], [1, 1, 1, 1, 3, 2]
    sources = [small(tokens, types, merges=["a b"], pre=pre) for pre in ("gpt-2", "llama-bpe")]
    spm = {"model": "llama", "scores": [0.0] * 6, "unknown_token_id": 5, "add_space_prefix": False}
    for source in [*sources, small(tokens, types, **spm)]:
        fast = Tokenizer(source)
        assert fast.encode("abc") == [3, 2]
        assert fast.encode("abc", parse_special=True) == [4]


@pytest.mark.parametrize("name", ["<|im_start|>", "<|anything_else|>", "<start_of_turn>"])
@pytest.mark.parametrize("kind", [1, 4, 5])
def test_an_unmistakable_name_is_a_control_token_whatever_the_file_says(name: str, kind: int) -> None:
    fast = Tokenizer(small([*"<|>_abcdefghijklmnopqrstuvwxyz", name], [1] * 30 + [kind]))
    assert fast.is_control(30)
    assert 30 not in fast.encode(name)
    assert fast.encode(name, parse_special=True) == [30]


def test_user_defined_tokens_are_text_and_the_longest_wins() -> None:
    fast = tokenizer("toy_sentencepiece")
    ids = fast.encode("<tag></tag><tag>\n\n", add_bos=False)
    assert [fast.token_text(token) for token in ids] == ["<tag></tag>", "<tag>", "\n\n"]
    assert not any(map(fast.is_control, ids))


def test_begin_of_text_comes_once() -> None:
    fast = tokenizer("random_muse")
    assert fast.encode("a")[0] == fast.encode("a", add_bos=True)[0] == fast.bos_id
    assert fast.encode("a", add_bos=False)[0] != fast.bos_id
    template = "<|begin_of_text|><|start|>user"
    assert fast.encode(template, parse_special=True).count(fast.bos_id) == 1
    assert fast.encode(template, parse_special=True, add_bos=True).count(fast.bos_id) == 2
    assert fast.encode("") == [fast.bos_id]
    assert fast.encode("", add_bos=False) == []


def test_begin_of_text_needs_such_a_token() -> None:
    fast = Tokenizer(small(["a"], [1]))
    assert (fast.add_bos, fast.encode("a")) == (False, [0])
    with pytest.raises(ParameterError, match="add_bos"):
        fast.encode("a", add_bos=True)


@pytest.mark.parametrize(("pre", "added"), [("llama-bpe", True), ("llama4", False), ("qwen2", False)])
def test_begin_of_text_where_the_file_does_not_say(pre: str, added: bool) -> None:
    assert Tokenizer(metadata("random_muse", pre=pre, add_bos_token=None)).add_bos is added


def test_an_end_is_never_appended() -> None:
    fast = Tokenizer(metadata("random_muse", add_eos_token=True))
    assert fast.add_eos
    assert fast.encode("a") == tokenizer("random_muse").encode("a")


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\udc80\udcff"])
@pytest.mark.parametrize("name", ["random_muse", "toy_sentencepiece"])
def test_a_lone_surrogate_is_a_parameter_error(name: str, text: str) -> None:
    with pytest.raises(ParameterError, match="UTF-8") as caught:
        tokenizer(name).encode(text)
    assert caught.value.parameter == "text"


@pytest.mark.parametrize("bad", [b"bytes", None, 3, ["a"]])
def test_other_types_are_parameter_errors(bad: object) -> None:
    with pytest.raises(ParameterError, match="str"):
        tokenizer("random_muse").encode(bad)


def test_a_character_that_the_vocabulary_lacks_is_named_and_not_dropped() -> None:
    fast = Tokenizer(small(["a", "b"], [1, 1]))
    assert fast.encode("ab") == [0, 1]
    with pytest.raises(ParameterError, match=r"text\[1\] is 'é'"):
        fast.encode("aéb")


@every_pre
@settings(max_examples=60, deadline=None)
@given(text=any_text, size=st.integers(1, 5))
def test_cutting_a_text_changes_no_token(pre: str, text: str, size: int) -> None:
    fast = tokenizer("tiny_muse", pre)
    pieces = list(chunks(text, size))
    assert "".join(pieces) == text
    ids = [token for piece in pieces for token in fast.encode(piece, add_bos=False)]
    assert ids == fast.encode(text, add_bos=False)


def test_long_texts_are_cut() -> None:
    assert max(map(len, chunks("some words of a text, " * 5000))) < 10_000
    assert max(map(len, chunks("日本語、" * 20_000))) < 10_000
    assert max(map(len, chunks("line\n" * 20_000))) < 10_000
