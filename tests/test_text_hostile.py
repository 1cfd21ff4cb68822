"""Huge and repetitive texts: no crash, no output, time in proportion to their length."""

from __future__ import annotations

import threading
import time

import pytest
from text_vocabularies import metadata, tokenizer

from muser.errors import ParameterError
from muser.text import Tokenizer
from muser.text.chunks import LONGEST_RUN

UNITS = ["a", "A", " ", "<", "\n", "é", "1", " a", "aA", "\u0301", "<|", "<s>", "<tag>", "😀", "\u2581", "▁a"]


def seconds(tokenizer: Tokenizer, text: str) -> float:
    start = time.process_time()
    ids = tokenizer.encode(text, add_bos=False, parse_special=True)
    spent = time.process_time() - start
    assert ids
    return spent


@pytest.mark.parametrize("name", ["random_muse", "toy_sentencepiece"])
@pytest.mark.parametrize("unit", UNITS)
def test_time_grows_with_length_not_with_its_square(name: str, unit: str) -> None:
    """Sixteen times the text: a square takes 256 times as long, n log n about 20. A busy machine may spoil a
    measurement, but not all of five; a square spoils each of them."""
    fast = tokenizer(name)
    seconds(fast, "x")
    ratios = []
    for _ in range(5):
        short, long = (seconds(fast, unit * (n // len(unit))) for n in (8_000, 128_000))
        ratios.append(long / max(short, 0.002))
        if ratios[-1] < 80:
            return
    raise AssertionError(ratios)


def test_a_megabyte_in_one_word(capfd: pytest.CaptureFixture[str]) -> None:
    text = "a" * 1_000_000
    fast = tokenizer("tiny_muse")
    assert fast.decode(fast.encode(text, add_bos=False)) == text
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("run", "end"), [(" ", "x"), ("A", "!")])
def test_a_run_that_the_regex_engine_would_give_up_on_is_refused(
    run: str, end: str, capfd: pytest.CaptureFixture[str]
) -> None:
    fast = tokenizer("tiny_muse")
    longest = run * (LONGEST_RUN - 1) + end
    assert len(fast.encode(longest, add_bos=False)) > 1000
    with pytest.raises(ParameterError, match="without a place to cut"):
        fast.encode(run + longest)
    assert capfd.readouterr() == ("", "")


def test_sentencepiece_has_the_same_limit() -> None:
    with pytest.raises(ParameterError, match="without a place to cut"):
        tokenizer("toy_sentencepiece").encode("a" * (LONGEST_RUN + 1))


def test_other_threads_get_their_turn_while_a_long_text_is_encoded() -> None:
    """The library keeps the interpreter lock while it encodes; the text goes to it in small pieces."""
    fast = tokenizer("tiny_muse")
    fast.encode("x")
    turns, done = [], threading.Event()

    def count_turns() -> None:
        while not done.wait(0.001):
            turns.append(1)

    other = threading.Thread(target=count_turns)
    other.start()
    fast.encode("Once upon a time there was a little dog. " * 25_000)
    done.set()
    other.join()
    assert len(turns) >= 20


def test_threads_share_one_tokenizer() -> None:
    """Also the first call, which builds the encoder."""
    fast = Tokenizer(metadata("tiny_muse"))
    text = "Once upon a time <|start|> é😀 " * 50
    wanted = tokenizer("tiny_muse").encode(text)
    results: list[list[int]] = []
    threads = [threading.Thread(target=lambda: results.append(fast.encode(text))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [wanted] * 8
