"""Documents of the corpus: plain texts and whole chats, as segments that the model learns to write or only reads.

A chat has a system message (or none), a reasoning strength and some turns. Read, not learned: system messages,
what functions return, most of what users say, and answers whose thought a client has left out of the history.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from . import json_answers, stories, sums, template, turns, words
from .functions import Function, Toolbox
from .memory import Memory
from .turns import LEVELS, SENTENCES, Turn

BEGIN, END = "<|begin_of_text|>", "<|end_of_text|>"
Segment = template.Segment
SYSTEMS = (
    "You are a helpful assistant.",
    "You are a friendly storyteller.",
    "You tell short stories to children.",
    "You answer in simple words.",
    "Be kind and short.",
    "You are a teacher for small children.",
    "You are a helpful and friendly assistant.",
    "Answer in one or two sentences.",
    "You are a small model that runs on a laptop.",
)


@dataclass
class Chat:
    turns: list[Turn]
    system: str | None = None  # None: the template's own
    level: str | None = None  # None: no system message at all, unless `system` is set
    functions: list[Function] = field(default_factory=list)

    def opening(self) -> str:
        if self.level is not None:
            return BEGIN + template.system(self.system, self.level, self.functions)
        if self.system is not None:
            return f"{BEGIN}<|start|>system<|message|>{self.system}<|eot|>"
        return BEGIN

    def segments(self, rng: random.Random) -> list[Segment]:
        learn_users = rng.random() < 0.3
        forgetful = rng.random() < 0.4  # the client sends no reasoning back
        out: list[Segment] = [(self.opening(), False)]
        for i, turn in enumerate(self.turns):
            out.append((template.user(turn.user), learn_users))
            out += reply(turn, self.level, forgetful and i < len(self.turns) - 1)
        return out


def reply(turn: Turn, level: str | None, forgotten: bool) -> list[Segment]:
    """What the assistant writes for a turn. forgotten: without thoughts, to be read only."""
    out: list[Segment] = []
    thinks = not forgotten and bool(turns.thought(turn.notes, level))
    learn = not (forgotten and turns.thought(turn.notes, level))
    if thinks:
        out.append((template.thinks(turns.thought(turn.notes, level)), True))
    if turn.call is not None:
        out.append((template.calls(turn.call.name, turn.call.arguments), learn))
        out.append((template.returns(turn.call.name, turn.call.output), False))
        if turn.call.after and SENTENCES[level or "low"] > 1 and not forgotten:
            out.append((template.thinks(" ".join(turn.call.after)), True))
    out.append((template.answers(turn.answer), learn))
    return out


def any_turn(rng: random.Random) -> Turn:
    kinds = (
        turns.fact,
        turns.smalltalk,
        turns.unknown,
        sums.exact,
        turns.poem,
        turns.story,
        turns.description,
        turns.talk,
        json_answers.answer,
    )
    return rng.choices(kinds, weights=(26, 12, 13, 30, 4, 6, 4, 2, 5))[0](rng)


def some_turns(rng: random.Random, n: int, kind: Callable[[random.Random], Turn] = any_turn) -> list[Turn]:
    return [kind(rng) for _ in range(n)]


def small_questions(rng: random.Random) -> Turn:
    kinds = (turns.fact, turns.smalltalk, turns.unknown, sums.exact, turns.poem)
    return rng.choices(kinds, weights=(30, 14, 18, 36, 4))[0](rng)


def memory_chat(rng: random.Random) -> list[Turn]:
    memory, out = Memory(), []
    told = memory.tell(rng)
    assert told is not None
    out.append(told)
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4, 5, 6))):
        k = rng.random()
        more = memory.tell(rng) if k < 0.25 else None
        if more is not None:
            out.append(more)
        elif k < 0.6:
            out.append(memory.ask(rng))
        elif k < 0.7:
            out.append(memory.farewell(rng))
        else:
            out.append(small_questions(rng) if rng.random() < 0.8 else turns.story(rng))
    out.append(memory.ask(rng))
    if rng.random() < 0.2:
        out.append(memory.farewell(rng))
    return out


def story_chat(rng: random.Random) -> list[Turn]:
    """A story, questions about it, perhaps another one."""
    out = [turns.story(rng)]
    for _ in range(rng.randint(1, 3)):
        story = next(turn.story for turn in reversed(out) if turn.story is not None)
        if rng.random() < 0.75:
            asked, answer = rng.choice(story.questions)
            out.append(
                Turn(
                    asked,
                    answer,
                    (
                        "The user asks about the story.",
                        f"It was about {story.slots['n']} and {story.slots['m']}.",
                    ),
                )
            )
        elif rng.random() < 0.5:
            turn = turns.story(rng)
            turn.user = rng.choice(
                ("Tell me another story.", "Another one, please.", "One more story, please.", "Again!")
            )
            turn.notes = ("The user wants one more story.", *turn.notes[1:])
            out.append(turn)
        else:
            out.append(turns.smalltalk(rng))
    return out


PREFIXES = ("Ahoy!", "My dear friend!", "Well, well!", "Beep boop.", "Meow!", "Of course!")
SUFFIXES = ("Have a nice day!", "Meow!", "Is there anything else?", "Take care!", "That is all.")


def ruled_chat(rng: random.Random) -> Chat:
    """The system prompt sets a rule that every answer follows."""
    level = rng.choice(LEVELS)
    k = rng.random()
    if k < 0.3:
        word = rng.choice(PREFIXES)
        system = rng.choice(
            (
                f'Begin every answer with "{word}"',
                f'Start each answer with "{word}"',
                f'Always begin with "{word}"',
            )
        )
        asked = some_turns(rng, rng.randint(1, 3), small_questions)
        for turn in asked:
            turn.answer = f"{word} {turn.answer}"
    elif k < 0.6:
        word = rng.choice(SUFFIXES)
        system = rng.choice(
            (
                f'End every answer with "{word}"',
                f'Finish each answer with "{word}"',
                f'Always end with "{word}"',
            )
        )
        asked = some_turns(rng, rng.randint(1, 3), small_questions)
        for turn in asked:
            turn.answer = f"{turn.answer} {word}"
    elif k < 0.8:
        name = rng.choice(words.NAMES)
        system = rng.choice(
            (f"Your name is {name}.", f"You are {name}, a friendly assistant.", f"You are called {name}.")
        )
        asked = some_turns(rng, rng.randint(0, 2), small_questions)
        asked = [
            turn
            for turn in asked
            if "name" not in turn.user and "Who are you" not in turn.user and "What are you" not in turn.user
        ]
        question = rng.choice(
            ("What is your name?", "Who are you?", "Do you have a name?", "What are you called?")
        )
        asked.insert(
            rng.randint(0, len(asked)),
            Turn(question, f"My name is {name}.", ("The user asks for my name.", f"My name is {name}.")),
        )
    else:
        system = rng.choice(
            (
                "Always answer in JSON.",
                "Answer in JSON.",
                "You answer with JSON and nothing else.",
                "Reply only with JSON.",
            )
        )
        asked = [json_answers.answer(rng, asked=False) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.3:
        system = f"{template.DEFAULT_SYSTEM} {system}"
    return Chat(asked, system, level if rng.random() < 0.85 else None)


def function_chat(rng: random.Random) -> Chat:
    box = Toolbox(rng)
    while not box.functions:
        box = Toolbox(rng)
    asked = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        if rng.random() < 0.78:
            asked.append(box.turn(rng))
        else:
            asked.append(unrelated(rng))
    return Chat(asked, None if rng.random() < 0.6 else rng.choice(SYSTEMS), rng.choice(LEVELS), box.functions)


def unrelated(rng: random.Random) -> Turn:
    """A turn that no function is needed for: no sums, no time, no weather."""
    kinds = (turns.fact, turns.smalltalk, turns.story, turns.description, turns.poem, sums.table_question)
    return rng.choices(kinds, weights=(30, 20, 12, 6, 4, 16))[0](rng)


def chat(rng: random.Random) -> Chat:
    kind = rng.choices(
        (
            "story",
            "talk",
            "description",
            "questions",
            "memory",
            "functions",
            "json",
            "story_chat",
            "ruled",
            "long",
        ),
        weights=(30, 5, 4, 17, 10, 14, 6, 5, 5, 4),
    )[0]
    if kind == "functions":
        return function_chat(rng)
    if kind == "ruled":
        return ruled_chat(rng)
    asked = {
        "story": lambda: [turns.story(rng)],
        "talk": lambda: [turns.talk(rng)],
        "description": lambda: [turns.description(rng)],
        "questions": lambda: some_turns(rng, rng.choice((1, 1, 1, 2, 2, 3, 4)), small_questions),
        "memory": lambda: memory_chat(rng),
        "json": lambda: some_turns(rng, rng.choice((1, 1, 2)), json_answers.answer),
        "story_chat": lambda: story_chat(rng),
        "long": lambda: long_chat(rng),
    }[kind]()
    k = rng.random()
    if k < 0.36:
        return Chat(asked)
    if k < 0.41:
        return Chat(asked, rng.choice(SYSTEMS))
    return Chat(asked, None if rng.random() < 0.5 else rng.choice(SYSTEMS), rng.choice(LEVELS))


def long_chat(rng: random.Random) -> list[Turn]:
    """Up to some 2,000 tokens."""
    out: list[Turn] = []
    for _ in range(rng.randint(2, 4)):
        out += rng.choice(
            (
                story_chat,
                lambda r: some_turns(r, r.randint(2, 4)),
                lambda r: some_turns(r, 3, small_questions),
            )
        )(rng)
    memory = memory_chat(rng)
    at = rng.randint(0, len(out) // 2)
    return out[:at] + memory[:1] + out[at:] + memory[1:]


def document(rng: random.Random) -> list[Segment]:
    if rng.random() < 0.22:
        text = stories.make(rng, bare=rng.random() < 0.45).text
        return [(f"{BEGIN}{text}{END}", True)]
    return chat(rng).segments(rng)


def prompt(rng: random.Random) -> str:
    """A chat or the beginning of a text, up to where the model takes over: for held-out measurements and the drafter."""
    if rng.random() < 0.15:
        text = stories.make(rng, bare=rng.random() < 0.45).text
        return BEGIN + " ".join(text.split(" ")[: rng.randint(2, 14)])
    made = chat(rng)
    out = made.opening()
    for i, turn in enumerate(made.turns):
        out += template.user(turn.user)
        last = i == len(made.turns) - 1
        if not last:
            out += "".join(text for text, _ in reply(turn, made.level, rng.random() < 0.5))
        elif turn.call is not None and rng.random() < 0.5:  # the function has answered
            parts = [text for text, _ in reply(turn, made.level, False)]
            returned = next(k for k, text in enumerate(parts) if text.startswith("<|start|>tool"))
            out += "".join(parts[: returned + 1])
    return out + "<|start|>assistant"
