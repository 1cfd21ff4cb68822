"""Asks the model in the package, through muser, what it should be able to do, and counts what is right.

    PYTHONPATH=src python -m tools.tiny_muse.evaluate [--model FILE.gguf] [--json OUT.json] [--samples OUT.txt]

The questions are held out: of the corpus's grammar, under seeds that no shard of it has. Stories are sampled at
temperature 0.8, all else is greedy. A story passes if it ends, keeps the asked name, animal and adjective, and names
at most two characters.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import muser

from . import chats, functions, json_answers, sums, turns, words
from .chats import Chat
from .grammar import a
from .memory import Memory
from .turns import LEVELS, Turn

Message = dict[str, object]
STORIES, ASKED = 64, 64
SYSTEMS = (None, *chats.SYSTEMS[:4])


def ask(model: muser.Model, made: Chat, **options: object) -> muser.ChatCompletion:
    """The answer to the last turn, with the earlier ones as they should have been."""
    messages: list[Message] = []
    if made.system is not None:
        messages.append({"role": "system", "content": made.system})
    for i, turn in enumerate(made.turns):
        messages.append({"role": "user", "content": turn.user})
        if i < len(made.turns) - 1:
            messages.append({"role": "assistant", "content": turn.answer})
    tools = made.functions or None
    return model.chat(
        messages,
        temperature=options.pop("temperature", 0),
        reasoning=made.level,
        tools=tools,
        max_tokens=500,
        **options,
    )  # type: ignore[arg-type]


def story(model: muser.Model, rng: random.Random, i: int) -> bool:
    name, adj, animal = rng.choice(words.NAMES), rng.choice(words.ADJECTIVES), rng.choice(list(words.ANIMALS))
    asked = Turn(f"Tell me a story about {a(f'{adj} {animal}')} named {name}.", "")
    reply = ask(model, Chat([asked]), temperature=0.8, seed=i)
    said = set(re.findall(r"[A-Za-z]+", reply.text))
    return reply.finish_reason == "eos" and {name, adj, animal} <= said and len(said & set(words.NAMES)) <= 2


def exactly(
    make: Callable[[random.Random], Turn], levels: tuple[str | None, ...] = (None, *LEVELS)
) -> Callable[..., bool]:
    """The one right answer, at any reasoning strength."""

    def check(model: muser.Model, rng: random.Random, i: int) -> bool:
        turn = make(rng)
        return ask(model, Chat([turn], level=levels[i % len(levels)])).text == turn.answer

    return check


def thinks(level: str) -> Callable[..., bool]:
    """Reasoning where it is asked for, and an answer after it."""

    def check(model: muser.Model, rng: random.Random, i: int) -> bool:
        reply = ask(model, Chat([chats.any_turn(rng)], rng.choice(SYSTEMS), level))
        sentences = len(re.findall(r"[.!?](?: |$)", reply.reasoning))
        fits = {
            "low": sentences == 0,
            "medium": sentences >= 1,
            "high": sentences >= 2,
            "xhigh": sentences >= 2,
        }[level]
        return fits and reply.finish_reason == "eos" and bool(reply.text)

    return check


def refuses(model: muser.Model, rng: random.Random, i: int) -> bool:
    return "do not know" in ask(model, Chat([turns.unknown(rng)], level=(None, *LEVELS)[i % 5])).text


def remembers(model: muser.Model, rng: random.Random, i: int) -> bool:
    """A name and one thing more, some other questions, and then one of both asked for."""
    memory = Memory()
    said = [memory.tell(rng), memory.tell(rng)]
    other = [chats.small_questions(rng) for _ in range(i % 4)]
    made = [turn for turn in said if turn is not None] + other + [memory.ask(rng)]
    reply = ask(model, Chat(made, level=(None, *LEVELS)[i % 5]))
    return _same(reply.text, made[-1].answer)


def _same(said: str, wanted: str) -> bool:
    return said == wanted or ("did not tell" in said and "did not tell" in wanted)


def answers_json(model: muser.Model, rng: random.Random, i: int) -> bool:
    """JSON that is valid, and right where one answer is."""
    turn = json_answers.answer(rng)
    reply = ask(model, Chat([turn], level=(None, *LEVELS)[i % 5]))
    try:
        value = json.loads(reply.text)
    except ValueError:
        return False
    return value == json.loads(turn.answer) or turn.user.startswith("Name ")


def calls(maker: Callable[[random.Random], functions.Function]) -> Callable[..., bool]:
    """The right call, and after its result the right answer."""

    def check(model: muser.Model, rng: random.Random, i: int) -> bool:
        box = functions.Toolbox(rng)
        while maker not in box.by_maker:
            box = functions.Toolbox(rng)
        turn = {functions.calculator: functions.calculate, functions.clock: functions.look_at_clock}[maker](
            box.by_maker[maker], rng
        )
        assert turn.call is not None
        made = Chat([turn], None, LEVELS[i % 4], box.functions)
        reply = ask(model, made)
        if [(c.name, c.arguments) for c in reply.tool_calls] != [(turn.call.name, turn.call.arguments)]:
            return False
        messages: list[Message] = [{"role": "user", "content": turn.user}, reply.message]
        messages.append({"role": "tool", "name": turn.call.name, "content": turn.call.output})
        second = model.chat(
            messages, temperature=0, tools=box.functions, reasoning=made.level, max_tokens=200
        )  # type: ignore[arg-type]
        return second.text == turn.answer

    return check


def leaves_tools_alone(model: muser.Model, rng: random.Random, i: int) -> bool:
    made = chats.function_chat(rng)
    turn = chats.unrelated(rng)
    reply = ask(model, Chat([turn], made.system, made.level, made.functions))
    return not reply.tool_calls and bool(reply.text)


def follows(model: muser.Model, rng: random.Random, i: int) -> bool:
    """A rule of the system prompt: a first or last word, a name."""
    while True:
        made = chats.ruled_chat(rng)
        if made.system is not None and "JSON" not in made.system:
            break
    reply, wanted = ask(model, made).text, made.turns[-1].answer
    for word in chats.PREFIXES + chats.SUFFIXES:
        if f'"{word}"' in made.system:
            return (
                reply.startswith(word)
                if word in chats.PREFIXES and wanted.startswith(word)
                else reply.endswith(word)
            )
    return reply == wanted


CHECKS: dict[str, tuple[Callable[..., bool], int]] = {
    "stories, temperature 0.8": (story, STORIES),
    "facts": (exactly(turns.fact), ASKED),
    "small talk": (exactly(turns.smalltalk), ASKED),
    "sums up to ten": (exactly(lambda rng: sums.plus(rng, 10) if rng.random() < 0.5 else sums.minus(rng, 10)), ASKED),
    "sums up to a hundred, answered at once": (exactly(lambda rng: sums.plus(rng, 99) if rng.random() < 0.5 else sums.minus(rng, 99), (None, "low", "medium")), ASKED),
    "sums up to a hundred, thought through": (exactly(lambda rng: sums.plus(rng, 99) if rng.random() < 0.5 else sums.minus(rng, 99), ("high", "xhigh")), ASKED),
    "says that it does not know": (refuses, ASKED),
    "remembers what it was told": (remembers, ASKED),
    "JSON when asked": (answers_json, ASKED),
    "rules of a system prompt": (follows, ASKED),
    **{f"reasoning strength {level}": (thinks(level), 32) for level in LEVELS},
    "calculator: call and answer": (calls(functions.calculator), ASKED),
    "clock: call and answer": (calls(functions.clock), ASKED),
    "functions not needed are not called": (leaves_tools_alone, ASKED),
}  # fmt: skip


def results(model: muser.Model) -> Iterator[tuple[str, int, int]]:
    """(what, right, asked), four questions at a time."""
    with ThreadPoolExecutor(4) as pool:
        for name, (check, n) in CHECKS.items():
            seeds = [random.Random(f"held out {name} {i}") for i in range(n)]
            yield name, sum(pool.map(check, [model] * n, seeds, range(n))), n


SAMPLES: tuple[tuple[list[str], dict[str, object]], ...] = (
    (["Tell me a story about a lonely robot."], {}),
    (["Tell me a story about a girl named Lily who loses a kite."], {"reasoning": "xhigh"}),
    (["Write a short talk between Mia and her grandma about the stars."], {}),
    (["Describe a yellow kite."], {}),
    (["What is 47 plus 35?"], {"reasoning": "high"}),
    (["My name is Anna and I like trains.", "What does a rabbit eat?", "What is my name?"], {}),
    (["What is the capital of Mongolia?"], {}),
    (["Tom is 7 years old and lives in Rome. Give me name, age and city as JSON."], {}),
    (["Who are you?"], {}),
)


def samples(model: muser.Model) -> str:
    out = []
    for questions, options in SAMPLES:
        messages: list[Message] = []
        for question in questions:
            messages.append({"role": "user", "content": question})
            reply = model.chat(messages, temperature=0.7, seed=7, **options)  # type: ignore[arg-type]
            messages.append(reply.message)
            thought = f"\n*{reply.reasoning}*\n" if reply.reasoning else ""
            out.append(
                f"> {question}{''.join(f' ({k} {v})' for k, v in options.items())}\n{thought}\n{reply.text}\n"
            )
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="default: the model in the package")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--samples", type=Path)
    options = parser.parse_args()
    with muser.Model.load(options.model) if options.model else muser.Model.tiny() as model:
        table = {}
        for name, passed, n in results(model):
            table[name] = [passed, n]
            print(f"{name:45} {passed:3} of {n}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(table, indent=1) + "\n")
        if options.samples:
            options.samples.write_text(samples(model))


if __name__ == "__main__":
    main()
