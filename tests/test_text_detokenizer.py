"""Streaming: chunks joined are the whole text, none ends inside a character, nothing real is lost or invented."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_vocabularies import metadata, tokenizer

from muser.errors import ParameterError
from muser.text import Detokenizer, Tokenizer

NAMES = ("random_muse", "toy_sentencepiece")
every_vocabulary = pytest.mark.parametrize("name", NAMES)
numbers = st.lists(st.integers(0, 10**6), max_size=30)
REPLACEMENT = "\ufffd"

# Every lead byte with every continuation that makes a difference (Unicode 16, table 3-7), and plain bytes.
EDGES = [
    0x00,
    0x41,
    0x7F,
    0x80,
    0x8F,
    0x90,
    0x9F,
    0xA0,
    0xBF,
    0xC0,
    0xC2,
    0xDF,
    0xE0,
    0xE1,
    0xED,
    0xEE,
    0xEF,
    0xF0,
    0xF3,
]
EDGES += [0xF4, 0xF5, 0xFF, 0xBD]

# Continuations, one of which completes whatever can be completed.
TAILS = [b"\x80", b"\x80\x80", b"\x90\x80", b"\x90\x80\x80", b"\x80\x80\x80", b"\xa0\x80"]


def byte_tokens(tokenizer: Tokenizer, data: bytes) -> list[int]:
    """One token a byte."""
    from muser.text.byte_level import CHARACTERS

    ids = [tokenizer.token_id(CHARACTERS[byte]) for byte in data]
    if tokenizer.add_space_prefix:
        ids = [tokenizer.token_id(f"<0x{byte:02X}>") for byte in data]
    return [token for token in ids if token is not None]


def stream(tokenizer: Tokenizer, ids: list[int], **options: bool) -> list[str]:
    detokenizer = Detokenizer(tokenizer, **options)
    return [*(detokenizer.push(token) for token in ids), detokenizer.flush()]


@every_vocabulary
@pytest.mark.parametrize("skip_special", [False, True])
@settings(max_examples=150, deadline=None)
@given(numbers=numbers)
def test_chunks_joined_are_the_whole(name: str, skip_special: bool, numbers: list[int]) -> None:
    fast = tokenizer(name)
    ids = [number % fast.vocab_size for number in numbers]
    chunks = stream(fast, ids, skip_special=skip_special, continuation=False)
    assert "".join(chunks) == fast.decode(ids, skip_special=skip_special)


@every_vocabulary
@settings(max_examples=300, deadline=None)
@given(data=st.lists(st.sampled_from(EDGES), max_size=8).map(bytes))
def test_any_bytes_decode_as_python_does(name: str, data: bytes) -> None:
    fast = tokenizer(name)
    ids = byte_tokens(fast, data)
    assert "".join(stream(fast, ids)) == data.decode("utf-8", "replace")
    assert fast.decode(ids) == data.decode("utf-8", "replace").removeprefix(
        " " if fast.add_space_prefix else ""
    )


@settings(max_examples=300, deadline=None)
@given(data=st.lists(st.sampled_from(EDGES), max_size=8).map(bytes))
def test_only_the_beginning_of_a_character_is_held_back(data: bytes) -> None:
    """What is pending could still become a character; nothing that is decided waits."""
    detokenizer = Detokenizer(tokenizer("random_muse"))
    for token in byte_tokens(tokenizer("random_muse"), data):
        detokenizer.push(token)
        pending = detokenizer.pending
        if pending:
            assert any(_is_one_character(pending + tail) for tail in TAILS)
        assert len(pending) <= 3


def _is_one_character(data: bytes) -> bool:
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False


@every_vocabulary
@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=20))
def test_no_chunk_ends_inside_a_character(name: str, text: str) -> None:
    """Valid text arrives without one U+FFFD that was not in it, character by character."""
    fast = tokenizer(name)
    chunks = stream(fast, byte_tokens(fast, text.encode()))
    assert [chunk for chunk in chunks if chunk] == list(text)


@every_vocabulary
@pytest.mark.parametrize(
    "text", [REPLACEMENT, f"a{REPLACEMENT}{REPLACEMENT}b", "\x00", "a\x00\x00b", f"\x00{REPLACEMENT}"]
)
def test_a_real_replacement_character_and_a_nul_survive(name: str, text: str) -> None:
    fast = tokenizer(name)
    assert "".join(stream(fast, byte_tokens(fast, text.encode()))) == text
    assert fast.decode(fast.encode(text, add_bos=False)) == text


def test_the_unfinished_tail_appears_at_flush_and_only_there() -> None:
    fast = tokenizer("random_muse")
    detokenizer = Detokenizer(fast)
    pushed = [detokenizer.push(token) for token in byte_tokens(fast, "é😀".encode()[:-1])]
    assert pushed == ["", "é", "", "", ""]
    assert detokenizer.pending == "😀".encode()[:-1]
    assert detokenizer.flush() == REPLACEMENT
    assert (detokenizer.pending, detokenizer.flush()) == (b"", "")
    assert detokenizer.push(fast.encode("a", add_bos=False)[0]) == "a"


def test_a_control_token_ends_an_unfinished_character_unless_it_is_skipped() -> None:
    fast = tokenizer("random_muse")
    first, second = byte_tokens(fast, "é".encode())
    ids = [first, fast.eot_id, second]
    assert "".join(stream(fast, ids)) == f"{REPLACEMENT}<|eot|>{REPLACEMENT}"
    assert "".join(stream(fast, ids, skip_special=True)) == "é"


def test_a_stream_resumes_from_its_pending_bytes() -> None:
    fast = tokenizer("random_muse")
    ids = byte_tokens(fast, "日".encode())
    first = Detokenizer(fast)
    first.push_all(ids[:2])
    assert Detokenizer(fast, pending=first.pending).push_all(ids[2:]) == "日"


def test_only_a_text_of_its_own_loses_the_space_in_front() -> None:
    fast = tokenizer("toy_sentencepiece")
    ids = fast.encode("the dog", add_bos=True)
    assert fast.decode(ids, skip_special=True) == "the dog"
    assert fast.decode(ids) == "<s>the dog"
    assert "".join(stream(fast, ids, skip_special=True)) == " the dog"
    assert Tokenizer(metadata("toy_sentencepiece", add_space_prefix=False)).decode(ids[1:]) == " the dog"


@pytest.mark.parametrize("bad", [-1, 512, 10**12])
def test_a_bad_id_is_a_parameter_error(bad: int) -> None:
    fast = tokenizer("random_muse")
    for use in (
        fast.token_bytes,
        fast.token_text,
        Detokenizer(fast).push,
        lambda token: fast.decode([token]),
    ):
        with pytest.raises(ParameterError, match=str(bad)) as caught:
            use(bad)
        assert caught.value.parameter in ("token", "ids")
        assert caught.value.value == bad
