"""A chat that is saved between any two chunks goes on the same: reasoning, answer, calls and their grammars, a thinking
budget, stop strings. In another process as well."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from muser import ChatStream, Grammar, Model, SessionFileError, ToolCallPart
from muser.saving import container

SUM = [{"role": "user", "content": "What is 127 times 34?"}]
COW = [{"role": "user", "content": "What does a cow say?"}]
CALCULATOR = [{"name": "calculator.evaluate", "description": "Evaluates an arithmetic expression.", "parameters": {
    "type": "object", "properties": {"expression": {"type": "string"}, "digits": {"type": "integer", "minimum": 3, "maximum": 99}},
    "required": ["expression", "digits"]}}]  # fmt: skip
FEW = [{"name": "farm.call", "parameters": {"properties": {"n": {"enum": ["one", "two"]}}, "additionalProperties": False}}]
TAGS = "{{ messages[0].content }}<|start|>assistant{# tools <tool_call> <think> </think> #}"
LLAMA = "{{ messages[0].content }}<|start|>{# tools <|start_header_id|> #}"
HOT = {"temperature": 4.0, "seed": 5, "max_tokens": 60}

# messages, what the model is made to say at first, options, and what must come of it
CASES = {
    "thinks and calls": (SUM, "", {"tools": CALCULATOR, "reasoning": "high", "temperature": 0.5, "seed": 1}, "reasoning calls"),
    "a budget and a call": (SUM, "", {
        "tools": CALCULATOR, "reasoning": "high", "thinking_budget": 4, "temperature": 0, "logprobs": True}, "reasoning calls"),
    "a budget and stop strings": (COW, "", {
        "reasoning": "high", "thinking_budget": 4, "temperature": 0, "stop": ["moo. And", "moon", "oo."]}, "reasoning text"),
    "two thoughts": (COW, " to=self<|message|>Hm<|eom|><|start|>assistant to=self<|message|>So", {
        "tools": FEW, "thinking_budget": 3, **HOT}, "reasoning"),
    "a grammar after a budget": (COW, "", {
        "reasoning": "high", "thinking_budget": 3, "grammar": Grammar.regex(r"The [a-z ]{3,20}\."), "temperature": 0.5, "seed": 1}, "reasoning text"),
    "tags": (COW, "<think>So</think>Hi <tool_call>", {"tools": FEW, "chat_template": TAGS, **HOT}, "reasoning text calls"),
    "tags and a grammar": (COW, "", {
        "chat_template": TAGS, "grammar": Grammar.json_schema({"type": "array", "items": {"enum": ["a", 1]}, "minItems": 3}),
        "thinking_budget": 3, **HOT}, "reasoning text"),
    "llama": (COW, '\n{"name":"farm', {"tools": FEW, "chat_template": LLAMA, **HOT}, "calls"),
}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    with Model.tiny(slots=2, context=512) as model:
        yield model


@pytest.fixture(scope="module")
def other():
    """What another process would load: nothing computed, nothing cached."""
    with Model.tiny(slots=2, context=512, threads=1) as model:
        yield model


def dictated(model, stream, beginning):
    """The stream, whose model is told how to begin."""
    generation = stream._generation
    script, choose = model.tokenizer.encode_parts(model.tokenizer.control_parts(beginning), add_bos=False), generation.choose

    def told(token):
        done = len(generation._transcript.tokens)
        return script[done] if done < len(script) else choose(token) if choose is not None else token

    generation.choose = told if script else choose
    return stream


def outcome(completion):
    fields = {field.name: getattr(completion, field.name) for field in dataclasses.fields(completion)}
    return {**fields, "usage": completion.usage.total_tokens, "timings": None}


@pytest.mark.parametrize("name", CASES)
def test_a_chat_saved_at_any_chunk_goes_on_the_same(model, other, tmp_path, name):
    messages, beginning, options, parts = CASES[name]
    stream = dictated(model, model.chat_stream(messages, **options), beginning)
    chunks, files = [], []
    for chunk in stream:
        chunks.append(chunk)
        if chunk.finish_reason is None:
            files.append(tmp_path / f"{len(chunks)}")
            stream.save(files[-1])
    expected = stream.completion
    assert [bool(getattr(expected, part.replace("calls", "tool_calls"))) for part in parts.split()] == [True] * len(parts.split())
    assert all(call.problem is None for call in expected.tool_calls)
    unsaved = dictated(model, model.chat_stream(messages, **options), beginning)
    assert list(unsaved) == chunks  # saving changed nothing
    computed = other.stats()["prefill_tokens"]
    for done, file in enumerate(files, 1):
        resumed = dictated(other, other.resume(file), beginning)
        assert isinstance(resumed, ChatStream)
        assert list(resumed) == chunks[done:]
        assert outcome(resumed.completion) == outcome(expected)
    assert other.stats()["prefill_tokens"] == computed
    assert (model.slots.stats().free, other.slots.stats().free) == (2, 2)


def test_a_resumed_chat_is_saved_again_and_goes_on_in_another_process(model, other, tmp_path):
    messages, _, options, _ = CASES["a budget and a call"]
    chunks = list(model.chat_stream(messages, **options))
    stream = model.chat_stream(messages, **options)
    for _ in range(len(chunks) // 3):
        next(stream)
    stream.save(tmp_path / "once")
    stream.close()
    stream = other.resume(tmp_path / "once")
    calling = next(i for i, chunk in enumerate(chunks) if chunk.tool_calls) - 5  # inside the bound argument
    for _ in range(len(chunks) // 3, calling):
        next(stream)
    stream.save(tmp_path / "twice")
    program = f"""
import muser
with muser.Model.tiny(slots=1, context=512, threads=1) as model:
    print([[*model.resume(path)] for path in {[str(tmp_path / "once"), str(tmp_path / "twice")]!r}])
    assert model.stats()["prefill_tokens"] == 0
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout.strip()) == ("", repr([chunks[len(chunks) // 3 :], chunks[calling:]]))


def test_a_wrong_state_of_a_chat_is_refused(model, tmp_path):
    """What a hostile sender would make: a right checksum, and a state that cannot be."""
    messages, _, options, _ = CASES["a budget and a call"]
    with model.chat_stream(messages, **options) as stream:
        while not any(isinstance(part, ToolCallPart) for part in next(stream).parts):
            pass
        for _ in range(3):
            next(stream)
        stream.save(tmp_path / "good")
    record, blobs = container.read(str(tmp_path / "good"), None)
    text = json.dumps(record)
    assert record["chat"]["grammars"]["call"][2]
    wrong = []
    for key in record["chat"]:
        wrong.append({k: v for k, v in record["chat"].items() if k != key})
        wrong.append({**record["chat"], key: "x"})
    chat = record["chat"]
    kind, lark, tokens = chat["grammars"]["call"]
    for call in ([kind, lark, tokens[::-1]], [kind, "start: (", tokens], [kind, lark, [-1]], [kind, lark, ["x"]], [kind], 5):
        wrong.append({**chat, "grammars": {**chat["grammars"], "call": call}})
    for forced in ([-1], [10**9], ["x"], 5):
        wrong.append({**chat, "thinking": {"forced": forced, "closed": False}})
    wrong += [None, [], {}, {**chat, "tools": [{"name": 5}]}, {**chat, "way": {"protocol": "muse"}}]
    for changed in wrong:
        container.write(str(tmp_path / "bad"), {**json.loads(text), "chat": changed}, blobs, None)
        with pytest.raises(SessionFileError):
            model.resume(tmp_path / "bad")
    assert model.slots.stats().free == 2
    assert list(model.resume(tmp_path / "good"))[-1].finish_reason == "tool_calls"
