"""Encoding equals the slow readable references on any text."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_reference import byte_pair_merge, old_characters, sentencepiece_merge, words
from text_vocabularies import DATA, KEY, PRE_TOKENIZERS, metadata, tokenizer

from muser.text import Tokenizer, byte_level
from muser.text.bpe import splitter
from muser.text.pretokenizers import PreTokenizer, find
from muser.text.spm import SPACE

OLD = sorted(old_characters())
KNOWN = set(OLD)
FEW = random.Random(2).sample(OLD, 3000)
CORPUS = [text for text in json.loads((DATA / "corpus.json").read_text()) if KNOWN.issuperset(text)]
SNIPPETS = [
    "'s",
    "'LL",
    "'\u017f",
    "e\u0301",
    " ",
    "  ",
    "\n",
    "\r\n",
    "/",
    "A",
    "b",
    "12",
    "É",
    "ǅ",
    "日",
    "😀",
    "the",
]
texts = st.lists(
    st.one_of(st.sampled_from(SNIPPETS), st.sampled_from(CORPUS), st.sampled_from(FEW)), max_size=12
)
texts = texts.map("".join)
USER_DEFINED = ("\n\n", "<tag>", "<tag></tag>")
every_pre = pytest.mark.parametrize("pre", PRE_TOKENIZERS)


def fast_words(pre: PreTokenizer, text: str) -> list[str]:
    return [byte_level.to_bytes(word).decode() for word, _ in splitter(pre).pre_tokenize_str(text)]


@every_pre
def test_words_of_the_corpus(pre: str) -> None:
    patterns = find(pre)
    assert [fast_words(patterns, text) for text in CORPUS] == [words(patterns, text) for text in CORPUS]


@every_pre
@settings(max_examples=50, deadline=None)
@given(text=texts)
def test_words_of_any_text(pre: str, text: str) -> None:
    assert fast_words(find(pre), text) == words(find(pre), text)


@every_pre
@settings(max_examples=40, deadline=None)
@given(text=texts)
def test_byte_level_bpe(pre: str, text: str) -> None:
    fast = tokenizer("random_muse", pre)
    merges = metadata("random_muse")[KEY + "merges"]
    pieces: list[str] = []
    for word in words(find(pre), text):
        whole = "".join(byte_level.CHARACTERS[byte] for byte in word.encode())
        known = find(pre).ignore_merges and fast.token_id(whole) is not None
        pieces += [whole] if known else byte_pair_merge(word, merges)
    assert [fast.token_text(token) for token in fast.encode(text, add_bos=False)] == pieces


@pytest.mark.parametrize("order", ["reversed", "shuffled", "one late"])
def test_byte_level_bpe_whatever_the_order_of_the_vocabulary(order: str) -> None:
    """Trained vocabularies list their pieces in the order of the merges, which the encoder expects and must not need."""
    source = metadata("random_muse", pre="gpt-2")
    tokens, types = source[KEY + "tokens"], source[KEY + "token_type"]
    ordinary = [token for token, kind in enumerate(types) if kind == 1]
    placed = {
        "reversed": ordinary[::-1],
        "shuffled": random.Random(1).sample(ordinary, len(ordinary)),
        "one late": ordinary[:300] + ordinary[301:] + ordinary[300:301],
    }[order]
    moved = [*tokens]
    for place, token in zip(ordinary, placed, strict=True):
        moved[place] = tokens[token]
    assert moved != tokens
    usual, other = Tokenizer(source), Tokenizer({**source, KEY + "tokens": moved})
    for text in CORPUS:
        ids = usual.encode(text, add_bos=False)
        assert [other.token_text(token) for token in other.encode(text, add_bos=False)] == [
            usual.token_text(token) for token in ids
        ]


@settings(max_examples=150, deadline=None)
@given(
    text=st.one_of(
        texts, st.lists(st.sampled_from([*"ab ▁é中\n<t", "<tag>", "</tag>"]), max_size=40).map("".join)
    )
)
def test_sentencepiece(text: str) -> None:
    fast = tokenizer("toy_sentencepiece")
    source = metadata("toy_sentencepiece")
    entries = zip(source[KEY + "tokens"], source[KEY + "token_type"], source[KEY + "scores"], strict=True)
    scores = {piece: score for piece, kind, score in entries if kind == 1}
    pieces: list[str] = []
    for part in re.split("(\n\n|<tag></tag>|<tag>)", text):
        if part in USER_DEFINED:
            pieces.append(part)
        elif part:
            pieces += sentencepiece_merge((" " + part).replace(" ", SPACE), scores)
    spelled = []
    for piece in pieces:
        known = piece in scores or piece in USER_DEFINED
        spelled += [piece] if known else [f"<0x{byte:02X}>" for byte in piece.encode()]
    assert [fast.token_text(token) for token in fast.encode(text, add_bos=False)] == spelled


def test_a_word_of_the_vocabulary_is_one_token_only_where_merges_are_ignored() -> None:
    whole = tokenizer("random_muse").token_id("Ġzz398")  # no merge leads to it
    assert tokenizer("random_muse", "llama-bpe").encode(" zz398", add_bos=False) != [
        whole
    ]  # digits are a word
    source = metadata("random_muse")
    tokens = [*source[KEY + "tokens"]]
    tokens[whole] = "Ġzzz"
    changed = {pre: {**source, KEY + "tokens": tokens, KEY + "pre": pre} for pre in ("llama-bpe", "llama4")}
    assert Tokenizer(changed["llama-bpe"]).encode(" zzz", add_bos=False) == [whole]
    assert Tokenizer(changed["llama4"]).encode(" zzz", add_bos=False) != [whole]
