"""What a model writes becomes reasoning, answer and calls, wherever its tokens begin and end."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muser
from muser import ReasoningPart, TextPart, ToolCallPart
from muser.chat.llama3 import LlamaReader
from muser.chat.messages import plain_messages
from muser.chat.muse import MuseReader
from muser.chat.reader import Calls
from muser.chat.tags import TagReader
from muser.chat.tools import Tools

TOOLS = Tools(
    [
        {"name": "get.weather", "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"},
                           "note": {"type": ["string", "null"]}},
            "required": ["city"], "additionalProperties": False}},
        {"name": "search", "parameters": {"type": "object"}},
    ]
)  # fmt: skip
MUSE_CALL = (
    ' to=get.weather<|message|><atem:function_calls>\n<atem:invoke name="get.weather">\n'
    '<atem:parameter name="city">Zürich "West"\n</atem:parameter>\n<atem:parameter name="days">2</atem:parameter>\n'
    '<atem:parameter name="tags">["a", {"b": null}]</atem:parameter>\n'
    '<atem:parameter name="note">null</atem:parameter>\n</atem:invoke>\n</atem:function_calls>'
)
ZURICH = {"city": 'Zürich "West"\n', "days": 2, "tags": ["a", {"b": None}], "note": None}
NEXT = "<|start|>assistant"

# reader, what it is told, the text, then reasoning, answer, calls (name, arguments, whether there is a problem)
CASES = {
    "muse answers": ("muse", {}, " to=user<|message|>Hi, 你好!", "", "Hi, 你好!", []),
    "muse thinks": (
        "muse", {}, f" to=self<|message|>So.\n <|eom|>{NEXT} to=user<|message|> \nHi", "So.\n ", " \nHi", []),
    "muse thinks twice": (
        "muse", {}, f" to=self<|message|>a<|eom|>{NEXT} to=self<|message|>b<|eom|>{NEXT} to=user<|message|>c", "ab", "c", []),
    "muse only thinks": ("muse", {}, " to=self<|message|>So", "So", "", []),
    "muse calls": ("muse", {}, MUSE_CALL, "", "", [("get.weather", ZURICH, False)]),
    "muse thinks and calls twice": (
        "muse", {}, (f" to=self<|message|>Hm<|eom|>{NEXT}{MUSE_CALL}<|eom|>{NEXT} to=search.search<|message|>"
        '<atem:function_calls>\n<atem:invoke name="search.search">\n</atem:invoke>\n</atem:function_calls>'),
        "Hm", "", [("get.weather", ZURICH, False), ("search", {}, False)]),
    "muse calls what there is not": (
        "muse", {}, MUSE_CALL.replace("get.weather", "get.news"), "", "", [("get.news", ZURICH, True)]),
    "muse breaks the schema": (
        "muse", {}, MUSE_CALL.replace(">2<", ">two<"), "", "", [("get.weather", {**ZURICH, "days": "two"}, True)]),
    "muse stops in a call": ("muse", {}, MUSE_CALL[:60], "", "", [("get.weather", {}, True)]),
    "muse without a header": ("muse", {}, "Hello there", "", "Hello there", []),
    "muse in a header": ("muse", {}, " to=us", "", "", []),
    "plain": ("tags", {"thinks": False, "thinking": False}, " <think>Hi <tool", "", " <think>Hi <tool", []),
    "think": ("tags", {"thinks": True, "thinking": False}, "\n<think>\nSo </th so\n</think>\n\nHi\n", "So </th so", "Hi\n", []),
    "think, opened": ("tags", {"thinks": True, "thinking": True}, "So\n\n</think>\n\nHi", "So", "Hi", []),
    "think, never closed": ("tags", {"thinks": True, "thinking": False}, "<think>So </thi", "So </thi", "", []),
    "no thought": ("tags", {"thinks": True, "thinking": False}, "<thin air", "", "<thin air", []),
    "hermes": (
        "tags", {"thinks": True, "thinking": False},
        ('<think>\nHm\n</think>\n\nLet me see. \n<tool_call>\n{"name": "get.weather", "arguments": {"city": "</tool_>", "days": 1}}\n'
        '</tool_call>\n<tool_call>{"name": "search", "arguments": "{\\"q\\": 1}"}</tool_call>'),
        "Hm", "Let me see.", [("get.weather", {"city": "</tool_>", "days": 1}, False), ("search", {"q": 1}, False)]),
    "hermes, broken": (
        "tags", {"thinks": False, "thinking": False},
        '<tool_call>{"name": "search", "arguments": {"a": }}</tool_call>', "", "", [("search", {}, True)]),
    "hermes, no name": (
        "tags", {"thinks": False, "thinking": False}, 'Hi \n<tool_call>[] </tool_call>\n<tool_call>{"name": "search"}</tool_call>!',
        "", "Hi \n<tool_call>[] </tool_call>!", [("search", {}, False)]),
    "hermes, cut in the name": (
        "tags", {"thinks": False, "thinking": False}, 'Hi <tool_call>{"name": "sea', "", 'Hi <tool_call>{"name": "sea', []),
    "hermes, no name in quotation marks": (
        "tags", {"thinks": False, "thinking": False}, '<tool_call>{"name": ""}</tool_call>', "",
        '<tool_call>{"name": ""}</tool_call>', []),
    "hermes, cut": (
        "tags", {"thinks": False, "thinking": False}, 'Hi <tool_call>{"name": "search", "argu', "", "Hi", [("search", {}, True)]),
    "llama": (
        "llama", {}, '{"name": "get.weather", "parameters": {"city": "Ü", "days": 3}}', "", "",
        [("get.weather", {"city": "Ü", "days": 3}, False)]),
    "llama, two": (
        "llama", {}, ' {"type": "function", "name": "search", "parameters": {"a": "}; {"}}; {"name": "search", "parameters": {}}',
        "", "", [("search", {"a": "}; {"}, False), ("search", {}, False)]),
    "llama, text": ("llama", {}, 'Use {"name": "search"}', "", 'Use {"name": "search"}', []),
    "llama, other JSON": ("llama", {}, ' {"names": [1]}', "", ' {"names": [1]}', []),
}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    with muser.Model.tiny(context=64, slots=1) as model:
        yield model


@pytest.fixture(scope="module")
def tokenizer(model):
    return model.tokenizer


@pytest.fixture(scope="module")
def reply(model):
    return model.chat([{"role": "user", "content": "Hi"}], max_tokens=1)


NUMBERS = ["1e999", "-1e999", "NaN", "-Infinity", "9" * 400, "9" * 5000, "1e308"]
STRINGS = [r'"\ud800"', r'{"\udc00": 1}', r'"\ud83d\ude00"', '"\u00e9"', '"<|eot|>"']
NESTED = ["[" * depth + "]" * depth for depth in (40, *range(56, 66), 300, 3000)] + ["[" * 3000, '{"a":' * 70 + "1" + "}" * 70]
VALUES = st.sampled_from([*NUMBERS, *STRINGS, *NESTED, "1", '{"a": [', ""])
NAMES = st.sampled_from(['"search"', '"get.weather"', '"zz"', '"x y \u00e9"', '""', r'"a\ud800"', r'"a\q"', "5", "null", "[]"])
BODIES = st.one_of(
    st.builds('{{"name": {}, "arguments": {{"city": {}}}}}'.format, NAMES, VALUES),
    st.builds('{{"name": {}, "parameters": {}}}'.format, NAMES, VALUES),
    st.builds('{{"name": {}, "arguments": {}}}'.format, NAMES, VALUES.map(json.dumps)),
    st.sampled_from(["sorry", "[]", "", '{"arguments": {}}', "null", "[" * 2000]),
)
INVOKED = st.builds(
    '<atem:invoke name="{}">\n<atem:parameter name="{}">{}</atem:parameter>\n</atem:invoke>\n'.format,
    st.sampled_from(["search", "get.weather", ""]), st.sampled_from(["city", "days", "tags", "x", ""]), VALUES,
)  # fmt: skip
ANSWERS = st.one_of(
    st.tuples(st.just("tags"), st.lists(BODIES.map("Hi <tool_call>\n{}\n</tool_call>".format), max_size=2).map("".join)),
    st.tuples(st.just("llama"), st.lists(BODIES, max_size=2).map("; ".join)),
    st.tuples(st.just("llama"), st.builds('{{"name": "search", "parameters": {{}}}}; {}'.format, BODIES)),
    st.tuples(st.just("muse"), st.lists(INVOKED, max_size=2).map(lambda each: " to=search<|message|>" + "".join(each))),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(answer=ANSWERS, cut=st.none() | st.integers(0, 120))
def test_whatever_a_model_writes_its_message_is_taken_by_the_next_turn(model, reply, answer, cut):
    kind, text = answer
    reader = reader_of(kind, {"thinks": False, "thinking": False}, model.tokenizer)
    parts = [part for token in model.tokenize(text[:cut], add_bos=False, parse_special=True) for part in reader.push(token)]
    parts += reader.finish()
    calls = tuple(part.call for part in parts if isinstance(part, ToolCallPart) and part.call)
    said = dataclasses.replace(
        reply, text="".join(part.text for part in parts if isinstance(part, TextPart)), tool_calls=calls
    )
    results = [{"role": "tool", "tool_call_id": call.id, "content": call.problem or "1"} for call in calls]
    messages = [{"role": "user", "content": "Hi"}, said.message, *results]
    prompt = model.chat_prompt(messages, tools=TOOLS.listed, chat_template=TEMPLATE)
    assert all(call.name in prompt.text for call in calls) and said.text in prompt.text
    assert len(plain_messages(messages)[1].get("tool_calls", ())) == len(calls)


TEMPLATE = (
    "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"
)


def test_a_check_that_fails_is_a_problem():
    for schema, value in (({"multipleOf": 0.5}, float("inf")), ({"$ref": "#/$defs/nowhere"}, 10**400)):
        tools = Tools([{"name": "f", "parameters": {"type": "object", "properties": {"n": schema}}}])
        assert "cannot be checked" in tools.problem("f", {"n": value})


def test_multiples_are_those_of_the_written_decimals():
    tools = Tools([{"name": "f", "parameters": {"type": "object", "properties": {"n": {"multipleOf": 0.01}}}}])
    for value in (4.35, 19.99, 1e300, 10**400, -0.07, 3, "a"):
        assert tools.problem("f", {"n": value}) is None
    assert tools.problem("f", {"n": 4.355}) == "$.n: 4.355 is not a multiple of 0.01"


def reader_of(kind, options, tokenizer, tools=TOOLS):
    calls = Calls(tools, 5)
    if kind == "tags":
        return TagReader(tokenizer, calls, **options)
    return (MuseReader if kind == "muse" else LlamaReader)(tokenizer, calls)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_read_the_same_however_it_is_cut_into_tokens(tokenizer, name, data):
    kind, options, text, reasoning, answer, calls = CASES[name]
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=6).map(sorted))
    reader = reader_of(kind, options, tokenizer)
    parts = []
    for piece in tokenizer.control_parts(text):
        if isinstance(piece, int):
            parts += reader.push(piece)
            continue
        ends = [cut for cut in cuts if cut < len(piece)] + [len(piece)]
        for start, end in zip([0, *ends], ends):
            for token in tokenizer.encode_parts([piece[start:end]], add_bos=False):
                parts += reader.push(token)
    parts += reader.finish()
    assert "".join(p.text for p in parts if isinstance(p, ReasoningPart)) == reasoning
    assert "".join(p.text for p in parts if isinstance(p, TextPart)) == answer
    done = [p.call for p in parts if isinstance(p, ToolCallPart) and p.call]
    assert [(call.name, call.arguments, call.problem is not None) for call in done] == calls
    assert [call.id for call in done] == [f"call_{5 + index}" for index in range(len(done))]
    for index, call in enumerate(done):
        pieces = [p for p in parts if isinstance(p, ToolCallPart) and p.index == index]
        assert {p.name for p in pieces} == {call.name}
        assert pieces[-1].call is call and all(p.call is None for p in pieces[:-1])
        assert "".join(p.text for p in pieces) == call.text
    if calls and kind == "muse":
        assert parts[-1].call is not None


@pytest.mark.parametrize("name", ["muse answers", "plain", "hermes", "llama, text"])
def test_nothing_is_held_back_longer_than_it_takes(tokenizer, name):
    kind, options, text, *_ = CASES[name]
    reader = reader_of(kind, options, tokenizer, tools=None if kind == "llama" else TOOLS)
    text = text.split("<tool")[0]
    seen = "".join(
        part.text
        for token in tokenizer.encode_parts(tokenizer.control_parts(text), add_bos=False)
        for part in reader.push(token)
        if isinstance(part, TextPart)
    )
    assert seen == {"muse answers": "Hi, 你好!", "plain": " <think>Hi", "hermes": "Let me see.", "llama, text": text}[name]


def test_without_tools_a_call_is_text(tokenizer):
    for kind, text in (("tags", '<tool_call>{"name": "f"}</tool_call>'), ("llama", '{"name": "f", "parameters": {}}')):
        reader = reader_of(kind, {"thinks": False, "thinking": False}, tokenizer, tools=None)
        parts = [part for token in tokenizer.encode(text, add_bos=False) for part in reader.push(token)]
        assert "".join(part.text for part in [*parts, *reader.finish()]) == text
        assert all(isinstance(part, TextPart) for part in parts)
