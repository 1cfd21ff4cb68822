"""The model in the package: how it was made can be repeated (tools/tiny_muse), and it does what its card says."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import gguf
import jinja2
import pytest

import muser
from muser import Model

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tools.tiny_muse import chats, corpus, functions, stories, template

DATA = Path(muser.__file__).parent / "data"
TARGET, DRAFTER = DATA / "muse-tiny-Q4_K_M.gguf", DATA / "dflash-tiny-Q8_0.gguf"
CALCULATOR = functions.function(
    "calculator.evaluate", "Evaluates an arithmetic expression.", expression="string"
)
CLOCK = functions.function("clock.now", "Says what time it is.")


def test_same_seed_same_corpus():
    """The digest is of the corpus that the shipped weights were trained on: a changed word is a new model."""
    assert (
        corpus.digest(corpus.documents(23, 0, 100))
        == "1b71fe448f6e3e21d93ad3eb4379a37873acadd2d228f5f9655ec18682b21901"
    )
    assert corpus.digest(corpus.documents(24, 0, 100)) != corpus.digest(corpus.documents(23, 0, 100))


def test_every_plot_can_be_told_with_two_names():
    """By the rule of the evaluation: the hero, and at most one other name of the list."""
    for i, name in enumerate(list(stories.PLOTS) * 8):
        rng = corpus.random.Random(i)
        story = stories.make(rng, plot=name, bare=i % 3 == 0)
        said = set(re.findall(r"[A-Za-z]+", story.text))
        assert said & set(stories.words.NAMES) <= {story.slots["n"], story.slots["m"]}, (name, story.text)
        assert not re.search(r"[{}\[\]|]|  | ,", story.text), (name, story.text)
        assert i % 3 == 0 or story.slots["base"] in story.text


def test_the_corpus_is_written_as_the_template_renders():
    environment = jinja2.Environment()
    environment.filters["tojson"] = lambda value: json.dumps(
        value, ensure_ascii=False
    )  # as transformers has it
    rendered = environment.from_string(template.JINJA)
    rng = corpus.random.Random(5)
    seen = set()
    for _ in range(400):
        chat = chats.chat(rng)
        if chat.level is None and chat.system is not None:
            continue  # a form for clients that render for themselves
        messages: list[dict] = [] if chat.system is None else [{"role": "system", "content": chat.system}]
        expected = chat.opening()
        for turn in chat.turns:
            messages.append({"role": "user", "content": turn.user})
            expected += template.user(turn.user)
            expected += "".join(text for text, _ in chats.reply(turn, chat.level, forgotten=True))
            if turn.call is not None:
                call = {
                    "id": f"c{len(messages)}",
                    "function": {"name": turn.call.name, "arguments": turn.call.arguments},
                }
                messages.append({"role": "assistant", "tool_calls": [call]})
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": turn.call.output})
            messages.append({"role": "assistant", "content": turn.answer})
        options = {} if chat.level is None else {"reasoning_strength": chat.level}
        text = template_text(rendered, messages, chat, options)
        assert text == expected
        seen.add((chat.level, bool(chat.functions)))
    assert len(seen) > 8


def template_text(
    rendered: jinja2.Template, messages: list[dict], chat: chats.Chat, options: dict[str, str]
) -> str:
    return rendered.render(messages=messages, tools=chat.functions, bos_token="<|begin_of_text|>", **options)


def test_both_files_fit_together_and_are_small():
    assert TARGET.stat().st_size + DRAFTER.stat().st_size <= 10e6
    target, drafter = (gguf.GGUFReader(str(path)) for path in (TARGET, DRAFTER))
    key = "tokenizer.ggml.tokens"
    assert target.fields[key].contents() == drafter.fields[key].contents()
    assert target.fields["tokenizer.chat_template"].contents() == template.JINJA
    assert drafter.fields["general.architecture"].contents() == "dflash"
    width = target.fields["muse-glimmer.embedding_length"].contents()
    assert drafter.fields["dflash.embedding_length"].contents() == width
    assert (
        max(drafter.fields["dflash.target_layers"].contents())
        < target.fields["muse-glimmer.block_count"].contents()
    )


def test_the_recipes_quantizer_makes_such_a_file(tmp_path):
    """The shipped weights as float16, quantized as tools/tiny_muse/README.md says: the types and the size of the shipped file,
    whose quantizer was llama.cpp's, and a model that answers like it."""
    muser.quantize(TARGET, tmp_path / "f16.gguf", "F16")
    ours = muser.quantize(tmp_path / "f16.gguf", tmp_path / "again.gguf", "Q4_K_M")
    shipped = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(str(TARGET)).tensors}
    assert ours.tensor_types == shipped
    assert abs(ours.nbytes - TARGET.stat().st_size) < 64  # alignment
    question = [{"role": "user", "content": "What does a cow say?"}]
    with Model.load(ours.path, context=128) as model:
        assert model.chat(question, temperature=0).text == "A cow says moo."


@pytest.fixture(scope="module")
def model():
    with Model.tiny(context=1024) as model:
        yield model


@pytest.mark.parametrize("level", [None, "low", "medium", "high", "xhigh"])
def test_it_uses_a_calculator_and_reads_the_result(model, level):
    messages: list[dict] = [{"role": "user", "content": "What is 127 times 34?"}]
    reply = model.chat(messages, tools=[CALCULATOR, CLOCK], reasoning=level, temperature=0)
    (call,) = reply.tool_calls
    assert (call.name, call.arguments, call.problem) == (
        "calculator.evaluate",
        {"expression": "127 * 34"},
        None,
    )
    assert bool(reply.reasoning) == (level not in (None, "low"))
    messages += [reply.message, {"role": "tool", "tool_call_id": call.id, "content": "4318"}]
    assert (
        model.chat(messages, tools=[CALCULATOR, CLOCK], reasoning=level, temperature=0).text
        == "127 times 34 is 4318."
    )


def test_it_looks_at_a_clock_only_where_there_is_one(model):
    asked: list[dict] = [{"role": "user", "content": "What time is it?"}]
    reply = model.chat(asked, tools=[CLOCK], temperature=0)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("clock.now", {})]
    answered = [*asked, reply.message, {"role": "tool", "name": "clock.now", "content": "14:05"}]
    assert model.chat(answered, tools=[CLOCK], temperature=0).text == "It is 14:05."
    assert "do not know" in model.chat(asked, temperature=0).text


def test_more_thought_at_each_reasoning_strength(model):
    asked = [{"role": "user", "content": "Tell me a story about a brave turtle."}]
    replies = [
        model.chat(asked, reasoning=level, temperature=0) for level in ("low", "medium", "high", "xhigh")
    ]
    lengths = [reply.reasoning_tokens for reply in replies]
    assert lengths == sorted(set(lengths)) and lengths[0] == 0
    assert all("turtle" in reply.text and reply.finish_reason == "eos" for reply in replies)


def test_it_keeps_names_answers_in_json_and_knows_its_limits(model):
    def say(*questions: str, **options: object) -> str:
        messages: list[dict] = []
        for question in questions:
            messages.append({"role": "user", "content": question})
            reply = model.chat(messages, temperature=0, **options)
            messages.append(reply.message)
        return reply.text

    assert say("My name is Anna.", "What does a cow say?", "What is my name?") == "Your name is Anna."
    asked = "Tom is 7 years old and lives in Rome. Give me name, age and city as JSON."
    assert json.loads(say(asked)) == {"name": "Tom", "age": 7, "city": "Rome"}
    assert "do not know" in say("What is the capital of Mongolia?")
    assert say("What is 47 plus 35?", reasoning="high") == "47 plus 35 is 82."
