"""Grammars in a chat: the caller's holds in the answer, a tool's in its calls, and neither anywhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muser import Grammar, Model
from muser.chat.call_grammar import _text_until, json_call, muse_call
from muser.chat.tools import Tools

COW = [{"role": "user", "content": "What does a cow say?"}]
SCHEMA = {
    "type": "object",
    "properties": {
        "animal": {"enum": ["cow", "a </atem: dog"]},
        "n": {"type": "integer", "minimum": 3, "maximum": 9},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/flag"}, "maxItems": 2},
        "more": {"type": "object", "properties": {"x": {"type": ["null", "boolean"]}}, "additionalProperties": False},
    },
    "required": ["animal", "n"],
    "additionalProperties": False,
    "$defs": {"flag": {"type": "boolean"}},
}
TOOLS = [{"name": "farm.call", "parameters": SCHEMA}]
FEW = [{"name": "farm.call", "parameters": {"properties": {"n": {"enum": ["one", "two"]}}, "additionalProperties": False}}]
HOT = 4.0  # the model in the package is sure of itself: it would always call with a cow
TAGS = "{{ messages[0].content }}<|start|>assistant{# tools <tool_call> <think> </think> #}"


@pytest.fixture(scope="module")
def model():
    with Model.tiny(context=512) as model:
        yield model


def dictated(model, beginning, forbidden=(), **options):
    """The answers of a model that is told how to begin, and goes on at random."""
    script = model.tokenizer.encode_parts(model.tokenizer.control_parts(beginning), add_bos=False)
    prompt = {key: value for key, value in options.items() if key in ("tools", "chat_template")}
    start = len(model.chat_prompt(COW, **prompt).tokens)
    never = [model.tokenizer.token_id(name) for name in forbidden]

    def dictate(tokens, logits):
        if len(tokens) - start < len(script):
            logits[:] = -1e9
            logits[script[len(tokens) - start]] = 0
        logits[never] = -1e9

    for seed in range(2):
        yield model.chat(COW, logits_processors=[dictate], temperature=HOT, seed=seed, **{"max_tokens": 250, **options})


def test_a_call_of_muse_glimmer_is_what_the_schema_accepts(model):
    seen = set()
    for reply in dictated(model, " to=farm.call<|message|>", ["<|eom|>"], tools=TOOLS):
        (call,) = reply.tool_calls
        assert reply.finish_reason == "tool_calls" and call.problem is None
        seen.add(str(call.arguments))
    assert len(seen) > 1


def test_another_message_may_follow_a_call(model):
    beginning = " to=self<|message|>Hm<|eom|><|start|>assistant to=farm.call<|message|>"
    for reply in dictated(model, beginning, ["<|eot|>", "<|end_of_text|>"], tools=FEW, max_tokens=170):
        assert reply.reasoning == "Hm" and reply.tool_calls[0].problem is None
        assert "</atem:function_calls><|eom|>" in model.detokenize(reply.tokens)


def test_a_call_in_tags_is_what_the_schema_accepts(model):
    for beginning in ("Hi <tool_call>", "<think>So</think>Hi <tool_call>"):
        for reply in dictated(model, beginning, tools=FEW, chat_template=TAGS, max_tokens=80):
            assert reply.text.startswith("Hi") and reply.tool_calls[0].problem is None
    assert len(model.tokenize(">\n", add_bos=False)) == 1  # the line feed belongs to the grammar, the rest to the tag
    for reply in dictated(model, "Hi <tool_call>\n", tools=FEW, chat_template=TAGS, max_tokens=80):
        assert reply.text.startswith("Hi") and reply.tool_calls[0].problem is None


def test_a_call_of_llama_3_is_what_the_schema_accepts(model):
    template = "{{ messages[0].content }}<|start|>{# tools <|start_header_id|> #}"
    for beginning in ('{"name": "f', '\n{"name":"farm'):
        for reply in dictated(model, beginning, tools=FEW, chat_template=template, max_tokens=80):
            assert reply.finish_reason == "tool_calls" and reply.tool_calls[0].problem is None
    for reply in dictated(model, '{  "name": "f', tools=FEW, chat_template=template, max_tokens=20):
        assert reply.text.startswith('{  "name": "f') or reply.tool_calls  # not bound


def test_a_call_to_no_tool_is_not_bound(model):
    for reply in dictated(model, " to=farm.buy<|message|>", tools=FEW, max_tokens=20):
        assert all(call.problem for call in reply.tool_calls)


@pytest.mark.parametrize("budget", [None, 0, 3])
def test_the_callers_grammar_holds_in_the_answer_only(model, budget):
    free = model.chat(COW, reasoning="high", temperature=0)
    pattern = r"The [a-z ]{3,20}\."
    reply = model.chat(COW, reasoning="high", temperature=0, grammar=Grammar.regex(pattern), thinking_budget=budget)
    assert re.fullmatch(pattern, reply.text) and reply.finish_reason == "eos"
    assert free.reasoning.startswith(reply.reasoning)
    assert reply.reasoning == free.reasoning if budget is None else reply.reasoning_tokens == budget


@pytest.mark.parametrize("budget", [0, 3])
def test_with_tags_reasoning_is_begun_where_an_answer_has_a_grammar(model, budget):
    grammar = Grammar.json_schema({"enum": ["a", 1]})
    reply = model.chat(COW, chat_template=TAGS, grammar=grammar, thinking_budget=budget, temperature=0)
    assert reply.text in ('"a"', "1")
    assert model.detokenize(reply.tokens).startswith("<think>\n")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["<", "</", "</atem:", "</atem:parameter", "a", "/", ">", "\n", "</atem:parameter>"]), max_size=7))
def test_bare_text_ends_at_its_first_end(pieces):
    text, end = "".join(pieces), "</atem:parameter>"
    pattern = re.sub(r"\\x\{([0-9A-F]+)\}", lambda code: re.escape(chr(int(code[1], 16))), _text_until(end))
    assert bool(re.fullmatch(pattern, text)) == (text.count(end) == 1 and text.endswith(end))


def test_bare_strings_are_as_the_protocol_has_them(model):
    tools = Tools([{"name": "f", "parameters": {"properties": {"s": {"type": "string"}, "any": {}}}}])
    body = (
        '<atem:function_calls>\n<atem:invoke name="f">\n<atem:parameter name="s"> "x" < </atem:parame {\n</atem:parameter>\n'
        '<atem:parameter name="any">[1]</atem:parameter>\n</atem:invoke>\n</atem:function_calls>'
    )
    grammar = muse_call(tools, "f")
    constraint = model.constraint(grammar)
    constraint.replay(model.tokenize(body, add_bos=False))
    assert constraint.only_ends
    for wrong in (body.replace('"any"', '"an"'), body.replace("\n</atem:invoke>", "</atem:invoke>")):
        ids = model.tokenize(wrong, add_bos=False)
        assert model.constraint(grammar).accepts(ids) < len(ids)


def test_what_the_engine_cannot_keep_is_left_to_the_check():
    odd = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}, "b": {"not": {"type": "null"}}}}
    tools = Tools([{"name": "f", "parameters": odd}])
    assert muse_call(tools, "f") is not None and json_call(tools, "arguments", "\n</tool_call>") is not None
    assert tools.problem("f", {"a": [1, 1]}) and tools.problem("f", {"a": [1, 2]}) is None


def test_the_page_on_grammars_is_true(capsys):
    page = (Path(__file__).parent.parent / "docs" / "grammar.md").read_text()
    for code in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(code, "docs/grammar.md", "exec"), {})
    assert capsys.readouterr().out == '{"name": "Anna", "age": 7}\n'
