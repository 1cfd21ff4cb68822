"""Log-probabilities: the model's own distribution, equal to numpy's; of the completion, of an echoed prompt, of every
chunk, whatever the sampler does."""

from __future__ import annotations

import numpy as np
import pytest
from engines import open_engine
from toy import write_toy

import muser
from muser import LogitsError, Model, ParameterError, SamplingParams
from muser.errors import BusyError


@pytest.fixture(scope="module")
def model():
    with Model.tiny(context=256, slots=2) as model:
        yield model


def numpy_logprobs(logits: np.ndarray) -> np.ndarray:
    x = logits.astype(np.float64)
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


def check(entry: muser.TokenLogprob, logits: np.ndarray, top: int) -> None:
    expected = numpy_logprobs(logits)
    assert abs(entry.logprob - expected[entry.token]) < 1e-6
    best = np.lexsort((np.arange(len(logits)), -logits.astype(np.float64)))[:top]
    assert [token for token, _ in entry.top] == best.tolist()
    assert np.abs(np.array([p for _, p in entry.top]) - expected[best]).max(initial=0) < 1e-6


@pytest.mark.parametrize("echo", [False, True])
def test_logprobs_are_those_of_the_raw_logits(model, echo):
    """Equal to numpy's at every place, although the sampler uses filters and a temperature; prompts of more rows than
    one pass returns included."""
    prompt = model.tokenize("Once upon a time there was a little fox who lived in a green forest with its friends, and")
    assert len(prompt) > 16
    params = SamplingParams(max_tokens=12, temperature=0.7, top_k=20, seed=3)
    plain = model.generate(prompt, params)
    stream = model.stream(prompt, params, logprobs=True, top_logprobs=5, echo=echo)
    chunks = list(stream)
    done = stream.completion
    assert done.tokens == (tuple(prompt) if echo else ()) + plain.tokens
    assert done.text == model.detokenize(done.tokens, skip_special=True) if echo else plain.text
    assert done.text.endswith(plain.text) and done.usage.total_tokens == plain.usage.total_tokens
    assert [e.token for e in done.logprobs] == list(done.tokens)
    for chunk in chunks:
        assert [e.token for e in chunk.logprobs] == list(chunk.tokens)
    assert tuple(e for chunk in chunks for e in chunk.logprobs) == done.logprobs
    assert plain.logprobs is None
    entries = list(done.logprobs)
    with model.session() as session:
        if echo:
            assert entries.pop(0) == muser.TokenLogprob(token=prompt[0], logprob=None, top=())
            session.prefill(prompt[:1])
            for token in prompt[1:]:
                check(entries.pop(0), session.logits, 5)
                session.prefill([token])  # as it was scored: on Metal decode has kernels of its own
        else:
            session.prefill(prompt)
        for token in plain.tokens:
            check(entries.pop(0), session.logits, 5)
            session.decode(token)
    assert not entries


def test_a_prompt_is_scored_without_a_completion(model):
    done = model.generate("The sun is warm.", max_tokens=0, echo=True, logprobs=True)
    assert (done.text, done.finish_reason, done.usage.completion_tokens) == ("The sun is warm.", "length", 0)
    assert done.logprobs[0].logprob is None and all(e.logprob < 0 and e.top == () for e in done.logprobs[1:])
    only_text = model.generate("The sun is warm.", max_tokens=0, echo=True)
    assert (only_text.text, only_text.tokens, only_text.logprobs) == (done.text, done.tokens, None)
    assert model.slots.stats().free == 2


def test_rows_of_any_kind_equal_numpy(tmp_path):
    """Through the fake row of an engine: ties, infinities, far tails; a damaged row is the model's error."""
    from fake_engine import fake_model

    path = tmp_path / "toy.gguf"
    write_toy(path, "llama")
    engine = open_engine(path, context=64)
    ids = np.arange(20, dtype=np.int32)
    scored = engine.prefill_scored(0, ids, 3, None)
    assert len(scored) == 19
    chosen, top = engine.logprobs(0, 7, 20)
    check(muser.TokenLogprob(token=7, logprob=chosen, top=top), engine.logits(0), 20)
    for token, top in [(-1, 0), (10**6, 0), (0, 21), (0, -1)]:
        with pytest.raises(ParameterError):
            engine.logprobs(0, token, top)
    engine.close()

    def spoil(logits, tokens):
        logits[97] = np.nan

    with pytest.raises(LogitsError):
        fake_model(spoil=spoil).generate("x", max_tokens=2, logprobs=True)


def test_top_logprobs_needs_logprobs():
    with pytest.raises(ParameterError, match="top_logprobs must be 0 without"):
        SamplingParams(top_logprobs=3)
    with pytest.raises(ParameterError, match="top_logprobs must be an integer in 0..20"):
        SamplingParams(logprobs=True, top_logprobs=21)


def test_a_scored_prompt_leaves_the_session_as_a_plain_one_does(model):
    ids = np.array(model.tokenize("A short story about a long road and what lay at the end of it, far away."), np.int32)
    engine = model._core.engine()
    with model.session() as one, model.session() as two:
        engine.prefill_scored(one.slot, ids, 0, None)
        two.prefill(ids)
        assert one.tokens == two.tokens and one.logits.tobytes() == two.logits.tobytes()
        assert one.decode(5).tobytes() == two.decode(5).tobytes()
        engine.fork(one.slot, two.slot, None)
        assert two.tokens == one.tokens and two.logits.tobytes() == one.logits.tobytes()
        with pytest.raises(BusyError):
            engine.fork(one.slot, one.slot, None)
