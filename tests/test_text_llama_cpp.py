"""Token ids equal those that llama.cpp gave for 709 awkward strings; every disagreement is known and has a reason.

tools/make_tokenizer_corpus.py recorded tests/data/text/{corpus,llama_cpp}.json. A disagreement that is not foreseen
here fails, and so does a foreseen one that is gone. docs/tokenizers.md explains each.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from text_vocabularies import DATA, KEY, tokenizer

from muser.errors import ParameterError
from muser.text import Tokenizer

TEXTS: list[str] = json.loads((DATA / "corpus.json").read_text())
RECORDED: dict = json.loads((DATA / "llama_cpp.json").read_text())
MARK = "[" + "".join(c for c in map(chr, range(0x10000)) if unicodedata.category(c).startswith("M")) + "]"
BOTH = pytest.mark.parametrize("parse_special", [False, True])


def lacks_a_byte(text: str) -> bool:
    """SmolLM2's vocabulary has no token for these; llama.cpp leaves them out, muser refuses the text."""
    return any(c in "\x04\x06\x13\x14\x16\x1d" or 0x40000 <= ord(c) < 0xC0000 for c in text)


def types_a_turn_marker(text: str) -> bool:
    """Control tokens in the file; llama.cpp makes them of typed text too, since gpt-oss."""
    return "<|start|>" in text or "<|message|>" in text


def types_html(text: str) -> bool:
    """Ordinary text in Gemma's file; llama.cpp takes it for the end of a text, as in Llama 2."""
    return "</s>" in text


def contracts_a_mark(text: str) -> bool:
    """The published regex lets a contraction follow a mark; llama.cpp's approximation knows no marks.

    It shows where the vocabulary has a token for the contraction, which none of these has for capitals."""
    return re.search(MARK + "'(?:s|t|re|ve|m|ll|d)", text) is not None


def never(text: str) -> bool:
    return False


def expected(name: str, parse_special: bool) -> list[list[int]]:
    record = RECORDED["models"][name]
    changed = record["special"] if parse_special else {}
    return [[*map(int, changed.get(str(i), ids).split())] for i, ids in enumerate(record["plain"])]


def disagreements(tokenizer: Tokenizer, ids: list[list[int]], parse_special: bool = False) -> set[str]:
    def encode(text: str) -> list[int] | None:
        try:
            return tokenizer.encode(text, add_bos=False, parse_special=parse_special)
        except ParameterError:
            return None

    return {text for text, wanted in zip(TEXTS, ids, strict=True) if encode(text) != wanted}


def foreseen(*reasons: Callable[[str], bool]) -> set[str]:
    return {text for text in TEXTS if any(reason(text) for reason in reasons)}


def test_the_corpus_is_large() -> None:
    assert len(TEXTS) == len(set(TEXTS)) >= 300


@BOTH
def test_random_muse(parse_special: bool) -> None:
    found = disagreements(tokenizer("random_muse"), expected("random_muse", parse_special), parse_special)
    assert found == (foreseen() if parse_special else foreseen(types_a_turn_marker))


@BOTH
def test_tiny_muse(parse_special: bool) -> None:
    found = disagreements(tokenizer("tiny_muse"), expected("tiny_muse", parse_special), parse_special)
    also = never if parse_special else types_a_turn_marker
    assert found == foreseen(contracts_a_mark, also)


@BOTH
def test_sentencepiece_with_a_space_in_front_and_equal_scores(parse_special: bool) -> None:
    ids = expected("toy_sentencepiece", parse_special)
    assert disagreements(tokenizer("toy_sentencepiece"), ids, parse_special) == set()


@pytest.mark.parametrize("name", ["random_muse", "tiny_muse", "toy_sentencepiece"])
def test_begin_of_text(name: str) -> None:
    check_begin_of_text(tokenizer(name), name)


@pytest.mark.parametrize("name", ["random_muse", "tiny_muse", "toy_sentencepiece"])
def test_ends_of_generation(name: str) -> None:
    assert sorted(tokenizer(name).stop_ids) == RECORDED["models"][name]["end_of_generation"]


def check_begin_of_text(tokenizer: Tokenizer, name: str) -> None:
    for parse_special, front in zip((False, True), RECORDED["models"][name]["front"], strict=True):
        assert front == ([tokenizer.bos_id] if tokenizer.add_bos else [])
        for text in ("", "Hi", "<s>Hi", "<bos>Hi", "<|begin_of_text|>Hi"):
            plain = tokenizer.encode(text, add_bos=False, parse_special=parse_special)
            assert tokenizer.encode(text, add_bos=True, parse_special=parse_special) == [
                tokenizer.bos_id,
                *plain,
            ]
            if plain[:1] != [tokenizer.bos_id]:
                assert tokenizer.encode(text, parse_special=parse_special) == front + plain


@cache
def real(path: Path, pre: str | None = None) -> Tokenizer:
    from muser._muser import GgufFile

    metadata = GgufFile(str(path)).metadata()
    return Tokenizer(metadata | {KEY + "pre": pre} if pre else metadata)


@pytest.mark.real
@BOTH
def test_smollm2(real_model: Callable[[str], Path], parse_special: bool) -> None:
    found = disagreements(real(real_model("smollm2")), expected("smollm2", parse_special), parse_special)
    assert found == foreseen(lacks_a_byte)


@pytest.mark.real
@BOTH
def test_gemma3(real_model: Callable[[str], Path], parse_special: bool) -> None:
    ids = expected("gemma3-270m", parse_special)
    found = disagreements(real(real_model("gemma3-270m")), ids, parse_special)
    assert found == (foreseen() if parse_special else foreseen(types_html))


@pytest.mark.real
@pytest.mark.parametrize("pre", ["llama4", "llama-bpe", "qwen2", "gpt-2", "default"])
def test_smollm2_under_other_pre_tokenizers(real_model: Callable[[str], Path], pre: str) -> None:
    changed = RECORDED["smollm2_under"][pre]
    plain = RECORDED["models"]["smollm2"]["plain"]
    ids = [[*map(int, changed.get(str(i), ids).split())] for i, ids in enumerate(plain)]
    also = contracts_a_mark if pre == "llama4" else never
    assert disagreements(real(real_model("smollm2"), pre), ids) == foreseen(lacks_a_byte, also)


@pytest.mark.real
@pytest.mark.parametrize(("name", "only_there"), [("smollm2", ["<reponame>"]), ("gemma3-270m", ["</s>"])])
def test_real_begin_and_ends(real_model: Callable[[str], Path], name: str, only_there: list[str]) -> None:
    """llama.cpp also ends a generation at a repository name (for infilling), and at Gemma's HTML tag."""
    tokenizer = real(real_model(name))
    check_begin_of_text(tokenizer, name)
    there = set(RECORDED["models"][name]["end_of_generation"])
    assert there - tokenizer.stop_ids == {tokenizer.token_id(text) for text in only_there}
    assert tokenizer.stop_ids <= there
