"""Text of temperature 0 of a model whose tokens the CPU chooses without all logits, by every way to ask for it: the first
maximum of the logits that a session has. Every row of the output matrix is there twice, so that every token is a tie."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from toy import write_toy
from variants import read, write

from muser import Completion, Model, Stream

CONTEXT = 96
PROMPTS = ("the 12 hello", "Hé日本 a", "er lo ing " * 5)
GREEDY = {"temperature": 0.0, "ignore_eos": True}


@pytest.fixture(scope="module", params=("llama f16", "gemma3 q8_0"))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    family, kv_dtype = request.param.split()
    whole, path = (tmp_path_factory.mktemp("greedy") / name for name in ("toy.gguf", "tied.gguf"))
    write_toy(whole, family, "Q8_0", layers=2, tied=False, context=CONTEXT, positive_head=True, seed=2)
    metadata, tensors = read(whole)
    data, kind = tensors["output.weight"]
    rows, pairs = np.array(data), np.random.default_rng(5).permutation(len(data)).reshape(-1, 2)
    rows[pairs[:, 0]] = rows[pairs[:, 1]]
    write(path, metadata, tensors | {"output.weight": (rows, kind)})
    return path, kv_dtype


@pytest.fixture(scope="module")
def model(case: tuple[Path, str]) -> Iterator[Model]:
    path, kv_dtype = case
    with Model.load(path, device="cpu", slots=4, context=CONTEXT, kv_dtype=kv_dtype, threads=2) as model:
        yield model


@pytest.fixture(scope="module")
def expected(case: tuple[Path, str]) -> dict[str, tuple[int, ...]]:
    """From each prompt to the end of the context."""
    path, kv_dtype = case
    texts = {}
    with Model.load(path, device="cpu", slots=1, context=CONTEXT, kv_dtype=kv_dtype, threads=1) as alone:
        for prompt in PROMPTS:
            tokens: list[int] = []
            with alone.session() as session:
                session.prefill(prompt)
                logits = session.logits
                while session.position < CONTEXT:
                    assert logits is not None
                    assert (logits == logits.max()).sum() > 1
                    tokens.append(int(logits.argmax()))
                    logits = session.decode(tokens[-1])
            texts[prompt] = tuple(tokens)
    assert all(len(set(tokens)) > 5 for tokens in texts.values())
    return texts


def to_the_end(stream: Stream) -> Completion:
    for _ in stream:
        pass
    assert stream.completion is not None
    return stream.completion


async def in_coroutine(model: Model, prompt: str) -> Completion:
    stream = model.astream(prompt, max_tokens=None, **GREEDY)
    async for _ in stream:
        pass
    assert stream.completion is not None
    return stream.completion


def test_by_every_way_in_company(model: Model, expected: dict[str, tuple[int, ...]]) -> None:
    """Neighbours sample, or want their log-probabilities: a pass has rows that need all logits, or it has none."""
    ways = (
        lambda prompt: model.generate(prompt, max_tokens=None, **GREEDY),
        lambda prompt: to_the_end(model.stream(prompt, max_tokens=None, **GREEDY)),
        lambda prompt: model.generate_n(prompt, 2, max_tokens=None, **GREEDY)[1],
        lambda prompt: asyncio.run(in_coroutine(model, prompt)),
        lambda prompt: asyncio.run(model.agenerate(prompt, max_tokens=None, **GREEDY)),
        lambda prompt: model.generate(prompt, max_tokens=None, logprobs=True, top_k=1, **GREEDY),
        lambda prompt: model.generate(prompt, max_tokens=30, seed=1, ignore_eos=True) and None,
    )
    jobs = [(way, prompt) for prompt in PROMPTS for way in ways]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda job: (job[1], job[0](job[1])), jobs))
    assert all(c is None or c.tokens == expected[prompt] for prompt, c in found)


def test_saved_and_resumed_in_the_middle(model: Model, expected: dict[str, tuple[int, ...]], tmp_path: Path) -> None:
    """The file has no logits, and the stream does not miss them. What is left of its session, in a slot, is reused."""
    for prompt in PROMPTS:
        stream = model.stream(prompt, max_tokens=None, **GREEDY)
        for chunk, _ in zip(stream, range(7)):
            assert chunk.finish_reason is None
        stream.save(tmp_path / "stream")
        stream.close()
        assert to_the_end(model.resume(tmp_path / "stream")).tokens == expected[prompt]
        with model.session(prompt=prompt) as session:
            session.prefill(prompt)
            assert session.cached_tokens > 0 and session.logits is not None
            assert int(session.logits.argmax()) == expected[prompt][0]


def test_what_ends_a_text_ends_it_there(model: Model, expected: dict[str, tuple[int, ...]]) -> None:
    for prompt, tokens in expected.items():
        at = tokens.index(tokens[20])
        for most in (at, at + 1, None):
            found = model.generate(prompt, max_tokens=most, stop_token_ids=[tokens[at]], **GREEDY)
            assert (found.tokens, found.finish_reason) == (tokens[:at], "length" if most == at else "stop")
        whole = model.generate(prompt, max_tokens=40, **GREEDY).text
        word = whole[9:11]
        found = model.generate(prompt, max_tokens=40, stop=word, **GREEDY)
        assert (found.stop_string, found.text) == (word, whole[: whole.index(word)])
        assert found.tokens == tokens[: len(found.tokens)]
