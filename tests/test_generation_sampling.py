"""The sampler inside a generation: what it looks back at, custom logits processors, and states that go on."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from fake_engine import BOS, VOCAB, FakeTokenizer, fake_model, free_slots
from sampler_oracle import Oracle

import muser
from muser import LogitsError, ParameterError, Sampler, SamplingParams
from muser._chain import breaker_tokens

A, B = ord("a"), ord("b")
LETTERS = range(97, 123)


def only(*allowed):
    """A processor that leaves these tokens."""

    def processor(tokens, logits):
        keep = logits[list(allowed)].copy()
        logits[:] = -np.inf
        logits[list(allowed)] = keep

    return processor


def test_penalties_look_at_prompt_and_completion():
    """The fake engine's logits depend on all tokens; the oracle is told the prompt and samples from the same rows."""
    p = {"repetition_penalty": 1.5, "frequency_penalty": 0.5, "penalty_last_n": 6, "dry_multiplier": 1.0, "seed": 3}
    model = fake_model()
    done = model.generate("abcabc", max_tokens=30, dry_sequence_breakers=["z"], **p)
    oracle = Oracle(**p, dry_breakers=[[ord("z")]])
    tokens = [BOS, *b"abcabc"]
    oracle.accept(tokens)
    for token in done.tokens:
        assert oracle.sample(model.engine._logits(tokens)) == token
        tokens.append(token)
    assert model.generate("abcabc", max_tokens=30, seed=3).tokens != done.tokens


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2}, {"temperature": 0.3}, {"top_k": 2}, {"top_p": 0.3}, {"min_p": 0.5}, {"typical_p": 0.3}, {"top_n_sigma": 0.5},
        {"xtc_probability": 0.9, "xtc_threshold": 0.01}, {"dynatemp_range": 0.9}, {"repetition_penalty": 3.0},
        {"presence_penalty": 3.0}, {"frequency_penalty": 3.0}, {"dry_multiplier": 5.0, "dry_allowed_length": 0},
        {"mirostat": 1, "mirostat_tau": 1.0}, {"mirostat": 2, "mirostat_tau": 1.0}, {"adaptive_target": 0.2},
        {"logit_bias": {A: 9.0}}, {"logits_processors": [only(A, B)]},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_every_parameter_reaches_the_sampler(change):
    """Alone and in company; and Sampler on the same rows chooses the same."""
    model = fake_model()
    plain = model.generate("x", max_tokens=40, seed=1).tokens
    params = SamplingParams(**{"max_tokens": 40, "seed": 1, **change})
    changed = model.generate("x", params).tokens
    assert changed != plain
    beside: list[tuple[int, ...]] = []
    threads = [threading.Thread(target=lambda: beside.append(model.generate("x", params).tokens)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert beside == [changed] * 4

    with model.session() as session:
        sampler = Sampler(params, tokenizer=FakeTokenizer())
        prompt = [BOS, ord("x")]
        sampler.accept(prompt)
        session.prefill(prompt)
        tokens = [session.sample(sampler)]
        for _ in range(19):
            session.decode(tokens[-1])
            tokens.append(session.sample(sampler))
        state = sampler.state()
        restored, twin = Sampler(params, tokenizer=FakeTokenizer()), sampler.copy()
        restored.restore(state)
        assert restored.state() == twin.state() == state
        for s in (twin, sampler):  # on the same rows: the session is where it was
            assert s.sample(session.logits) == restored.copy().sample(session.logits)
        for _ in range(20):
            session.decode(tokens[-1])
            tokens.append(session.sample(restored))
        assert tuple(tokens) == changed


def test_a_processor_sees_all_tokens_and_a_private_row():
    seen = []

    def processor(tokens, logits):
        assert logits.shape == (VOCAB,) and logits.dtype == np.float32 and logits.flags.writeable
        with pytest.raises(ValueError):
            tokens[0] = 1
        seen.append(tokens.tolist())
        logits[:] = -np.inf
        logits[A] = 0

    model = fake_model()
    done = model.generate("xy", max_tokens=5, logits_processors=[processor, only(A)])
    assert done.text == "aaaaa"
    assert seen == [[BOS, *b"xy", *([A] * n)] for n in range(5)]


def test_an_exception_of_a_processor_ends_its_own_generation_only():
    def fails(tokens, logits):
        if len(tokens) == 9:
            raise ZeroDivisionError("mine")

    model = fake_model(delay=0.001)
    params = SamplingParams(max_tokens=40, seed=5)
    expected = model.generate("x", params).tokens
    results: dict[int, object] = {}

    def generate(n: int) -> None:
        try:
            results[n] = model.generate("x", params, logits_processors=[fails] if n == 2 else ()).tokens
        except ZeroDivisionError as error:
            results[n] = str(error)

    threads = [threading.Thread(target=generate, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: expected, 1: expected, 2: "mine", 3: expected}
    assert free_slots(model) == 4
    assert model.generate("x", params).tokens == expected


@pytest.mark.parametrize(("value", "index"), [(math.nan, A), (-math.inf, None)])
def test_what_a_processor_spoils_is_its_own_error(value, index):
    def spoils(tokens, logits):
        logits[A if index else slice(None)] = value

    model = fake_model()
    with pytest.raises(ParameterError, match="logits_processors left nothing") as caught:
        model.generate("x", max_tokens=3, logits_processors=[spoils])
    assert (caught.value.parameter, caught.value.index) == ("logits_processors", index)
    assert free_slots(model) == 4


def test_a_damaged_row_is_the_models_error_also_with_processors():
    def spoil(logits, tokens):
        logits[3] = math.nan

    with pytest.raises(LogitsError):
        fake_model(spoil=spoil).generate("x", max_tokens=3, logits_processors=[only(A)])


def test_biases_that_leave_no_token():
    bans = dict.fromkeys(range(VOCAB), -math.inf)
    with pytest.raises(LogitsError, match="logit_bias"):
        fake_model().generate("x", max_tokens=3, logit_bias=bans)
    for vocab in (VOCAB, 2**31 - 1):
        with pytest.raises(ParameterError, match=f"logit_bias must hold ids in 0..{VOCAB - 1}"):
            fake_model().stream("x", max_tokens=3, logit_bias={3: 1.0, vocab: 1.0})


def test_breakers_are_the_tokens_that_hold_the_string():
    class Words(FakeTokenizer):
        words = (b"a", b"b", b"ab", b"xa", b"b\n", b"\n", b"abc")
        vocab_size = len(words)

        def pieces(self):
            return list(self.words)

        def encode(self, text, **_):
            return [self.words.index(text[n : n + 1].encode()) for n in range(len(text))]

    def resolved(*breakers, **fields):
        return breaker_tokens(SamplingParams(dry_multiplier=1.0, dry_sequence_breakers=breakers, **fields), Words())

    assert resolved("\n") == [[4], [5]]
    assert resolved("ab") == [[2], [6], [0, 1], [3, 1]]
    assert resolved((7, 8), "x") == [[7, 8], [3]]
    assert breaker_tokens(SamplingParams(), None) == []
    with pytest.raises(ParameterError, match="tokenizer"):
        Sampler(dry_multiplier=1.0)
    Sampler(dry_multiplier=1.0, dry_sequence_breakers=[(4,)])


def test_states_are_checked():
    for processors in ((), (only(A),)):
        sampler = Sampler(seed=1, logits_processors=processors)
        sampler.accept([1, 2, 3])
        state = sampler.state()
        for bad in (b"", b"x" * 30, state[:-1], state[:-12] + bytes([state[-12] ^ 1]) + state[-11:], state + b"\0"):
            with pytest.raises(ParameterError) as caught:
                sampler.restore(bad)
            assert caught.value.parameter == "state"
        with pytest.raises(ParameterError, match="parameters"):
            Sampler(seed=2, logits_processors=processors).restore(state)
        assert sampler.state() == state
    with pytest.raises(ParameterError, match="bytes"):
        Sampler().restore("x")  # type: ignore[arg-type]


def test_masks_are_checked():
    row = np.zeros(40, np.float32)
    for bad in ([1, 2], np.zeros(2, np.int32), np.zeros((1, 2), np.uint32), np.zeros(1, np.uint32), np.zeros(3, np.uint32)):
        with pytest.raises(ParameterError) as caught:
            muser.Sampler().sample(row, bad)  # type: ignore[arg-type]
        assert caught.value.parameter == "mask"
    assert muser.Sampler().sample(row, np.array([0, 1 << 3], np.uint32)) == 35


PARAMETERS = [
    {"repetition_penalty": 1.3, "dry_multiplier": 1.0, "dry_allowed_length": 1},
    {"mirostat": 2, "mirostat_tau": 3.0},
    {"adaptive_target": 0.2, "min_p": 0.01},
    {"xtc_probability": 0.5, "xtc_threshold": 0.02, "typical_p": 0.9, "dynatemp_range": 0.5},
    {"logits_processors": [lambda tokens, logits: logits.__setitem__(slice(None, None, 2), -np.inf)]},
]


def test_the_real_engine_alone_in_company_after_100_others_and_stepped_by_hand():
    with muser.Model.tiny(context=256) as model:
        prompt = model.tokenize("One sunny day, Mia went to", add_bos=True)
        params = [SamplingParams(seed=9, max_tokens=24, ignore_eos=True, **p) for p in PARAMETERS]
        alone = [model.generate(prompt, p).tokens for p in params]
        assert len(set(alone)) == len(alone)
        company: dict[int, tuple[int, ...]] = {}

        def generate(n: int) -> None:
            company[n] = model.generate(prompt, params[n]).tokens

        threads = [threading.Thread(target=generate, args=(n,)) for n in range(len(params))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [company[n] for n in range(len(params))] == alone

        for n in range(100):
            model.generate([n + 1] * (1 + n % 7), max_tokens=2, temperature=1.5, seed=n, repetition_penalty=1.3)
        assert [model.generate(prompt, p).tokens for p in params] == alone

        for p, expected in zip(params, alone):
            sampler = Sampler(p, tokenizer=model.tokenizer)
            sampler.accept(prompt)
            with model.session() as session:
                session.prefill(prompt)
                tokens = []
                for n in range(24):
                    if n == 12:  # in another process, perhaps
                        state, sampler = sampler.state(), Sampler(p, tokenizer=model.tokenizer)
                        sampler.restore(state)
                    tokens.append(session.sample(sampler))
                    if n < 23:
                        session.decode(tokens[-1])
            assert tuple(tokens) == expected


def test_a_processor_that_returns_its_logits_is_refused():
    """Other libraries' processors do; what they return would not be used."""
    with pytest.raises(ParameterError, match="return None") as caught:
        fake_model().generate("x", max_tokens=3, logits_processors=[lambda tokens, logits: logits * 2])
    assert caught.value.parameter == "logits_processors"
