"""Stop strings: the text ends where the oracle says, wherever tokens begin and end, and no more is withheld than may
become a stop string. min_tokens, include_stop, and the flush rule of the end."""

from __future__ import annotations

import itertools
import random

import pytest
from fake_engine import EOS, fake_model, free_slots, reply

from muser import ParameterError, SamplingParams
from muser.stops import StopFilter
from muser.text import Detokenizer
from muser.transcript import Transcript


def oracle(text: str, stops: list[str], include: bool) -> tuple[str, str | None]:
    """Cuts at the first character with which a stop string is complete; of several the longest."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return (text[:end] if include else text[: end - len(stop)]), stop
    return text, None


def may_become(text: str, stops: list[str]) -> int:
    """The length of the longest end of the text that is a proper beginning of a stop string."""
    return max(k for stop in stops for k in range(min(len(stop) - 1, len(text)) + 1) if text.endswith(stop[:k]))


def pieces_of(rng: random.Random, text: str) -> list[str]:
    cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(8)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]


def test_any_pieces_give_the_text_of_the_oracle_and_withhold_only_what_may_become_a_stop():
    rng = random.Random(1)
    found = 0
    for _ in range(20_000):
        alphabet = rng.choice(["ab", "abc", "aé🦊\0\ufffd"])
        word = lambda low, high: "".join(rng.choice(alphabet) for _ in range(rng.randint(low, high)))  # noqa: B023
        stops = [word(1, rng.choice([2, 4, 7])) for _ in range(rng.randint(1, 4))]
        text, include = word(0, 30), rng.random() < 0.5
        expected, stop = oracle(text, stops, include)
        found += stop is not None
        stream, delivered, seen = StopFilter(stops, include=include), "", ""
        for piece in pieces_of(rng, text):
            seen += piece
            delivered += stream.push(piece)
            assert expected.startswith(delivered)
            if stream.found is None:
                assert len(seen) - len(delivered) == len(stream.held) == may_become(seen, stops)
        delivered += stream.flush()
        assert (delivered, stream.found) == (expected, stop)
        assert stream.found is None or stream.push("more") == ""
    assert 5_000 < found < 18_000


def test_long_stop_strings_take_linear_time():
    stream = StopFilter(["a" * 100_000 + "b", "a" * 50_000 + "c"])
    assert stream.push("a" * 200_000) == "a" * 100_000
    assert stream.push("c") == "a" * 50_000 and stream.found == "a" * 50_000 + "c"


@pytest.mark.parametrize(
    ("stop", "text", "found"),
    [("d", "abc", "d"), ("cde", "ab", "cde"), (["ef", "cdef"], "ab", "cdef"), (["bcd", "bc"], "a", "bc"), (["x", "gg"], "abcdefgh", None)],
)
def test_stop_strings_end_a_generation(stop, text, found):
    model = fake_model(next_token=reply("abcdefgh"))
    stream = model.stream("x\0", stop=stop)
    chunks = list(stream)
    done = stream.completion
    assert (done.text, done.stop_string) == (text, found)
    assert (done.finish_reason, done.end_token) == (("stop", None) if found else ("eos", EOS))
    assert "".join(c.text for c in chunks) == text
    assert tuple(t for c in chunks for t in c.tokens) == done.tokens
    assert all(c.text for c in chunks[:-1])
    assert free_slots(model) == 4
    if found:  # nothing is decoded after it
        assert model.engine.steps == len(done.tokens) - 1 == "abcdefgh".index(found) + len(found) - 1


def test_what_was_withheld_is_flushed_at_the_end():
    model = fake_model(next_token=reply("abcSTO"))
    assert model.generate("x\0", stop="STOP").text == "abcSTO"
    assert model.generate("x\0", stop="STOP", max_tokens=5).text == "abcST"
    unfinished = fake_model(next_token=reply(b"abST" + "🦊".encode()[:2]))
    assert unfinished.generate("x\0", stop="STOP").text == "abST\ufffd"


def test_include_stop_keeps_the_string_or_the_token():
    model = fake_model(next_token=reply("abcdefgh"))
    assert model.generate("x\0", stop="cd", include_stop=True).text == "abcd"
    done = model.generate("x\0", stop_token_ids=[ord("c")], include_stop=True)
    assert (done.text, done.tokens, done.finish_reason, done.end_token) == ("abc", tuple(b"abc"), "stop", ord("c"))
    done = model.generate("x\0", include_stop=True)
    assert (done.text, done.finish_reason) == ("abcdefgh", "eos")


def test_stops_are_looked_for_in_text_not_in_control_tokens():
    model = fake_model(next_token=reply("ab", EOS))
    assert model.generate("x\0", stop="<257>", ignore_eos=True, max_tokens=5).finish_reason == "length"


def test_min_tokens():
    """End tokens cannot be sampled, and stop strings are looked for only in what comes after."""

    def spoil(logits, tokens):  # at the third token the end is likely, a letter possible
        logits[EOS] = 50 if len(tokens) >= 4 else logits[EOS]

    model = fake_model(spoil=spoil)
    for n in (0, 2, 3, 10):
        done = model.generate("x", min_tokens=n, seed=1)
        assert (len(done.tokens), done.finish_reason) == (max(2, n), "eos")
    assert len(model.generate("x", min_tokens=5, stop_token_ids=range(97, 110), seed=1).tokens) >= 5
    letters = fake_model(next_token=reply("abababab"))
    assert letters.generate("x\0", stop="ab", min_tokens=3).text == "abab"[:4]
    assert letters.generate("x\0", stop="ab", min_tokens=2).text == "ab"
    assert letters.generate("x\0", stop="ab", min_tokens=0).text == ""
    with pytest.raises(ParameterError, match="min_tokens must be at most max_tokens"):
        SamplingParams(min_tokens=3, max_tokens=2)


class Pieces:
    """A tokenizer whose tokens are any bytes, also parts of characters."""

    add_space_prefix = False

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def token_bytes(self, token: int) -> bytes:
        return self.pieces[token]

    def is_control(self, token: int) -> bool:
        return self.pieces[token].startswith(b"<|")


def test_chunks_of_any_tokens_join_to_the_text_of_the_oracle():
    """Tokens that are cut anywhere, inside characters too; control tokens, broken bytes, min_tokens, an echoed prompt."""
    rng = random.Random(2)
    for _ in range(4000):
        text = "".join(rng.choice("abé🦊\0\ufffd") for _ in range(rng.randint(1, 24))).encode()
        if rng.random() < 0.2:  # a byte is lost
            at = rng.randrange(len(text))
            text = text[:at] + text[at + 1 :]
        cuts = sorted({rng.randrange(len(text) + 1) for _ in range(rng.randint(1, 12))} | {0, len(text)})
        pieces = [text[a:b] for a, b in itertools.pairwise(cuts)]
        pieces.insert(rng.randint(0, len(pieces)), b"<|x|>")
        n_prompt, n_min = rng.randint(0, 2) % len(pieces), rng.randint(0, 3)
        stops = ["".join(rng.choice("abé🦊\0\ufffd") for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 3))]
        params = SamplingParams(stop=stops, min_tokens=n_min, include_stop=rng.random() < 0.5, echo=n_prompt > 0)
        tokenizer = Pieces(pieces)

        oracle_text = Detokenizer(tokenizer, skip_special=True)
        ids = list(range(n_prompt, len(pieces)))
        unsearched = oracle_text.push_all(range(n_prompt)) + oracle_text.push_all(ids[:n_min])
        expected, stop = oracle(oracle_text.push_all(ids[n_min:]), stops, params.include_stop)
        expected = unsearched + expected + ("" if stop else oracle_text.flush())

        transcript, chunks = Transcript(tokenizer, params), []
        if n_prompt:
            transcript.echo(range(n_prompt), ())
        for token in ids:
            chunk = transcript.add(token)
            chunks += [] if chunk is None else [chunk]
            if transcript.stop_string:
                break
        chunks.append(transcript.end("stop" if transcript.stop_string else "eos"))
        assert transcript.stop_string == stop
        assert "".join(c.text for c in chunks) == "".join(transcript.delivered) == expected
        assert [t for c in chunks for t in c.tokens] == [*transcript.prompt, *transcript.tokens]
        assert all(c.text and c.finish_reason is None for c in chunks[:-1]) and chunks[-1].finish_reason
