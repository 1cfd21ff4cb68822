"""Chat templates: the text that transformers renders, no control token from a message, no way to hang the host."""

from __future__ import annotations

import datetime
import functools
import json
import math
import re
import time
from pathlib import Path

import pytest
from chat_conversations import CONTROL, EVERY_CONTROL, FAMILIES, conversations, text, user

from muser.chat.messages import plain_messages
from muser.chat.template import ChatTemplate
from muser.chat.tools import Tools
from muser.errors import ParameterError, TemplateError

DATA = Path(__file__).parent / "data" / "chat"
RENDERED = json.loads((DATA / "rendered.json").read_text())
_CUT = re.compile("(" + "|".join(map(re.escape, EVERY_CONTROL)) + ")")


def make(source: str) -> ChatTemplate:
    """With the control tokens of all families, numbered."""

    def split(given: str):
        return (EVERY_CONTROL.index(p) if p in EVERY_CONTROL else p for p in _CUT.split(given) if p)

    return ChatTemplate(source, split, EVERY_CONTROL.__getitem__)


def render(template: ChatTemplate, family: str, one: dict):
    special = {
        name: EVERY_CONTROL.index(token)
        for name, token in zip(("bos_token", "eos_token"), FAMILIES[family])
        if token in EVERY_CONTROL
    }
    texts = {name: token for name, token in zip(("bos_token", "eos_token"), FAMILIES[family]) if token is not None}
    variables = {
        **{name: token for name, token in texts.items() if name not in special},
        "messages": plain_messages(one["messages"]),
        "tools": None if one["tools"] is None else Tools(one["tools"]).listed,
        "documents": None,
        "add_generation_prompt": one["add_generation_prompt"],
        **one["variables"],
    }
    return template.render(variables, special)


def defused(value):
    """The same conversation without anything that could be a control token, or a part of one."""
    if isinstance(value, str):
        return value.replace("<", "(")
    if isinstance(value, dict):
        return {key: defused(element) for key, element in value.items()}
    return [defused(element) for element in value] if isinstance(value, list) else value


@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_are_those_of_transformers_and_typed_control_tokens_are_text(family):
    template = make((DATA / f"{family}.jinja").read_text())
    right = 0
    for one, expected in zip(conversations(family), RENDERED[family], strict=True):
        if expected is None:
            with pytest.raises(TemplateError):
                render(template, family, one)
            continue
        if "[{'type'" in expected:  # transformers prints a content in parts as Python's notation of it
            with pytest.raises(TemplateError, match="parts of a message"):
                render(template, family, one)
            continue
        rendered = render(template, family, one)
        assert rendered.text == expected
        right += 1
        harmless = render(template, family, defused(one))
        ids = [part for part in rendered.parts if isinstance(part, int)]
        assert ids == [part for part in harmless.parts if isinstance(part, int)]
        # And in that one, every control token that can be read is one.
        assert ids == [EVERY_CONTROL.index(t) for t in _CUT.findall(harmless.text) if t in CONTROL[family]]
    assert right >= 20


def test_two_texts_together_are_no_control_token():
    template = make((DATA / "muse-glimmer.jinja").read_text())
    messages = plain_messages([user(text("a<|e", "ot|>", "<|start|", ">"))])
    rendered = template.render({"messages": messages, "current_date": "x"}, {"bos_token": 0})
    assert "a<|eot|><|start|>" in rendered.text
    assert "a<|eot|><|start|>" in rendered.parts


def test_a_template_that_takes_its_own_tokens_for_text_is_refused():
    for source in ("{{ '<|eot|>' | length }}", "{{ '<|eot|>'[1:] }}", "{{ '<|eot|>' | upper }}"):
        with pytest.raises(TemplateError, match="parse_special"):
            make(source).render({}, {})
    looks = make("{% if '<|eot|>' in messages[0].content or messages[0].content.endswith(eos_token) %}y{% endif %}<|eot|>")
    assert looks.render({"messages": [user("x<|eot|>")]}, {"eos_token": EVERY_CONTROL.index("<|eot|>")}).text == "y<|eot|>"


def test_what_transformers_offers():
    now = datetime.datetime.now()

    def run(source: str, **variables: object) -> str:
        return make(source).render(variables, {}).text

    assert run("{{ strftime_now('%Y-%m') }}") in (f"{now:%Y-%m}", f"{datetime.datetime.now():%Y-%m}")
    assert run("{{ x | tojson }}", x={"b": "<é&'>", "a": [1, None]}) == '{"b": "<é&\'>", "a": [1, null]}'
    assert run("{{ x | tojson(indent=2, sort_keys=true) }}", x={"b": 1, "a": 2}) == '{\n  "a": 2,\n  "b": 1\n}'
    assert run("{% for i in range(9) %}{% if i == 2 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "013"
    assert run("  {% if true %}\n  x\n  {% endif %}\n") == "  x\n"
    assert run("a{% generation %}b{{ x }}{% endgeneration %}", x=1) == "ab1"
    assert run("{{ dict(a=1) }}{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{{ ns.a }}") == "{'a': 1}2"
    assert run("{{ ', '.join(x | map('upper')) }}{{ '%s-%d' % ('a', 3) }}{{ '{:>3}'.format('b') }}", x=["p", "q"]) == "P, Qa-3  b"
    with pytest.raises(TemplateError, match="refuses: roles must alternate"):
        run("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(TemplateError) as caught:
        run("one\n{% if %}")
    assert caught.value.line == 2


NESTED = "{% for i in range(60000) %}{% for j in range(60000) %}BODY{% endfor %}{% endfor %}"
ENDLESS = [
    NESTED.replace("BODY", ""),
    NESTED.replace("BODY", "x" * 50_000),
    NESTED.replace("BODY", "{{ 'x' | upper }}"),
    "{% for i in range(99999) %}" * 15 + "{% endfor %}" * 15,
    "{% for x in range(99999) if false %}{% endfor %}" * 60,
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x='ab') %}{% for i in range(99) %}{% set ns.x = ns.x.replace('b', 'abab') %}{% endfor %}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x=1) %}{% for i in range(99) %}{% set ns.x = dict(a=ns.x, b=ns.x) %}{% endfor %}",
    "{% set ns = namespace(x=7) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
    "{% set x = range(99999) | list %}{% for i in range(99999) %}{% if x == x %}{% endif %}{% endfor %}",
    "{% set x = 'a' * 999999 %}{% for i in range(99999) %}{% if 'b' in x %}{% endif %}{% endfor %}",
    "{% set x = range(99999) | list %}{% for i in range(99999) %}{{ x[::-1] | length }}{% endfor %}",
    "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% for x in [1, [1]] recursive %}{{ loop([x, x]) }}{% endfor %}",
    "{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}",
    "{% for i in range(99999) %}{{ range(99999) | selectattr('x') | first }}{% endfor %}",
    "{% for i in range(99999) %}{{ 'x' in range(99999) }}{% endfor %}",
    "{% for i in range(99999) %}{{ [range(99999) | sum, 'x' is in range(99999)] }}{% endfor %}",
    "{% for i in range(99999) %}{% set c = cycler(*range(99999)) %}{% endfor %}",
    "{% macro f() %}{% endmacro %}{% for i in range(99999) %}{{ f(*range(99999)) }}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{{ loop | select('none') | list }}{% endfor %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{{ 'x' in loop }}{% endfor %}{% endfor %}",
    "{% set x = range(99999) | list %}{% for i in range(99999) %}{{ x | reverse | select('none') | list }}{% endfor %}",
    "{% set environment = namespace(step=dict) %}" + NESTED.replace("BODY", ""),
    "{{ ('{0}' * 99999).format('b' * 99999) }}", "{{ ('%(a)s' * 99999) % {'a': 'b' * 99999} }}",
    "{{ ('a' * 99999).join(range(99999) | map('string')) }}",
    "{{ range(99999) | map('string') | join('a' * 99999) }}",
    "{{ ('a' * 999999).replace('', 'b' * 999999) }}",
    "{{ 'a' * 2000000000 }}", "{{ [1] * 2000000000 }}", "{{ 9 ** 999999999 }}",
    "{{ 'a' | center(999999999) }}", "{{ 'a' | indent(999999999, true) }}", "{{ 'a'.ljust(999999999) }}",
    "{{ '\t'.expandtabs(999999999) }}", "{{ 'a'.zfill(999999999) }}", "{{ range(9) | batch(999999999, 'x') | list }}",
    "{{ '%999999999d' % 1 }}", "{{ '%*d' % (999999999, 1) }}", "{{ '%999999999d' | format(1) }}",
    "{{ '{:999999999}'.format(1) }}", "{{ '{:{}}'.format(1, 999999999) }}", "{{ [1] | tojson(indent=999999999) }}",
    "{{ [[1] * 999] * 999 | sum(start=[]) }}", "{% autoescape 'a' | center(999999999) %}{% endautoescape %}",
]  # fmt: skip
FORBIDDEN = [
    "{{ ''.__class__.__mro__ }}", "{{ cycler.__init__.__globals__ }}", "{{ (1).to_bytes(999999999, 'big') }}",
    "{{ messages.append(1) }}", "{{ 'x'.encode() }}", "{{ namespace(__init__=1) }}", "{{ lipsum() }}",
    "{{ x.y.z }}", "{% include 'x' %}", "{% import 'x' as y %}", "{{ 1 / 0 }}", "{{ messages | urlize }}",
    "{{ '{0.__class__.__init__.__globals__}'.format(messages) }}", "{{ (messages | first).update(a=1) }}",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "{{ " + "-" * 50_000 + "1 }}", "{{ 'a'" + "+'a'" * 20_000 + " }}",
    "{% if 1 %}" * 3000 + "{% endif %}" * 3000, "{{ 1" + "{#" * 90_000, "{{" + "1" * 190_000 + "}}", "x" * 200_001,
    "{{ raise_exception(messages) }}", "{%", "\ud800", "{{ '\\ud800' }}",
]  # fmt: skip


@pytest.mark.parametrize("source", ENDLESS + FORBIDDEN, ids=lambda source: re.sub(r"\W+", " ", source[:60]).strip())
def test_a_hostile_template_ends_with_a_typed_error_soon(source):
    started = time.process_time()
    with pytest.raises(TemplateError):
        make(source).render({"messages": [user("hi")]}, {})
    assert time.process_time() - started < 20  # some seconds at most on an idle machine


def test_a_long_conversation_is_within_the_limits():
    messages = [m for n in range(1500) for m in (user(f"{n} " * 20), {"role": "assistant", "content": "ok " * 50})]
    for family in ("muse-glimmer", "qwen3", "llama3", "gemma3"):
        one = {"messages": messages, "tools": None, "variables": {}, "add_generation_prompt": True}
        assert len(render(make((DATA / f"{family}.jinja").read_text()), family, one).text) > 300_000


@pytest.mark.parametrize(
    "messages, index, field",
    [
        ("hi", None, None),
        ([], None, None),
        (["hi"], 0, None),
        ([user("a"), {"content": "b"}], 1, "role"),
        ([{"role": "usr", "content": "b"}], 0, "role"),
        ([{"role": "user"}], 0, "content"),
        ([{"role": "user", "content": 5}], 0, "content"),
        ([{"role": "user", "content": ["x"]}], 0, "content[0]"),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}], 0, "content[1].type"),
        ([user("\ud800")], 0, "content"),
        ([user([{"type": "text", "text": "\ud800"}])], 0, "content[0].text"),
        ([{"role": "user", "content": "x", "extra": object()}], 0, "extra"),
        ([{"role": "user", "content": "x", "extra": float("nan")}], 0, "extra"),
        ([{"role": "user", "content": "x", "tool_calls": []}], 0, "tool_calls"),
        ([{"role": "assistant", "tool_calls": [{}]}], 0, "tool_calls[0].function"),
        ([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}], 0,
         "tool_calls[0].function.arguments"),
        ([{"role": "assistant", "content": "x", "reasoning_content": 1}], 0, "reasoning_content"),
    ],
)  # fmt: skip
def test_a_wrong_message_is_named(messages, index, field):
    with pytest.raises(ParameterError) as caught:
        plain_messages(messages)
    assert (caught.value.parameter, caught.value.index, caught.value.field) == ("messages", index, field)


@pytest.mark.parametrize(
    "tools, index, field",
    [
        ({}, None, None),
        ([5], 0, None),
        ([{"type": "function", "function": {"name": "a b"}}], 0, "function.name"),
        ([{"name": "f"}, {"name": "f"}], 1, "name"),
        ([{"name": "f"}, {"name": "g", "x": [object()]}], 1, "x[0]"),
        ([{"name": "f", 5: 1}], 0, "keys"),
        ([{"name": "f", "parameters": {"type": "banana"}}], 0, "parameters"),
    ],
)
def test_a_wrong_tool_is_named(tools, index, field):
    with pytest.raises(ParameterError) as caught:
        Tools(tools)
    assert (caught.value.parameter, caught.value.index, caught.value.field) == ("tools", index, field)


def test_arguments_as_json_text_become_an_object():
    def taken(arguments):
        message = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}
        try:
            return plain_messages([message])[0]["tool_calls"][0]["function"]["arguments"]
        except ParameterError as error:
            return error.index, error.field, str(error)

    assert taken('{"a": 1}') == taken({"a": 1}) == {"a": 1}
    deep = [functools.reduce(lambda inner, _: [inner], range(depth), 1) for depth in range(55, 70)]
    refused = 0
    for value in (math.nan, math.inf, -math.inf, "\ud800", {"\ud800": 1}, [1, {"b": [math.inf]}], *deep):
        assert taken(json.dumps({"a": value})) == taken({"a": value})
        refused += "a" not in taken({"a": value})
    assert 6 < refused < 6 + len(deep)
    for written in ('{"a": 1e999}', '{"a":' * 5000, "[" * 2000, "1" * 5000):
        assert taken(written)[:2] in ((0, "tool_calls[0].function.arguments"), (0, "tool_calls[0].function.arguments.a"))
