"""Chats in which the user tells something about himself and asks for it later; what was not told is not known."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from . import words
from .grammar import a, fill
from .turns import Turn, casual


@dataclass
class Known:
    """A thing that can be told: how it is said, acknowledged, asked for and answered ({v} is the value)."""

    said: str
    noted: str
    asked: str
    answer: str
    values: Callable[[random.Random], dict[str, str]]


def _one(values: list[str]) -> Callable[[random.Random], dict[str, str]]:
    return lambda rng: {"v": rng.choice(values)}


def _pet(rng: random.Random) -> dict[str, str]:
    animal = rng.choice("dog cat rabbit horse mouse parrot hen turtle kitten puppy goat".split())
    return {"v": rng.choice(words.NAMES), "x": animal, "ax": a(animal)}


def _friend(rng: random.Random) -> dict[str, str]:
    who = rng.choice(("friend", "brother", "sister", "teacher", "cousin", "neighbor"))
    names = {"brother": words.BOYS, "sister": words.GIRLS}.get(who, words.NAMES)
    return {"v": rng.choice(names), "x": who}


CITIES = "Rome Paris Oslo Berlin Madrid London Vienna Tokyo Lisbon Athens Dublin Cairo Ottawa Warsaw Prague Nairobi".split()
KNOWN = {
    "name": Known(
        "[My name is {v}.|I am {v}.|Hi, I am {v}.|Hello, my name is {v}.|Hello! I am {v}.|You can call me {v}.]",
        "[Nice to meet you, {v}!|Hello, {v}! What can I do for you?|Hi, {v}! It is nice to meet you.]",
        "[What is my name?|Do you know my name?|What am I called?|Who am I?|Do you remember my name?]",
        "Your name is {v}.",
        _one(words.NAMES),
    ),
    "age": Known(
        "I am {v} years old.",
        "[{v} years is a good age.|That is a good age.]",
        "[How old am I?|Do you know how old I am?|What is my age?]",
        "You are {v} years old.",
        lambda rng: {"v": rng.choice((words.NUMBERS[rng.randint(4, 12)], str(rng.randint(4, 60))))},
    ),
    "city": Known(
        "[I live in {v}.|I am from {v}.|My home is in {v}.]",
        "[{v} sounds like a nice place.|I would like to see {v}.]",
        "[Where do I live?|Do you know where I live?|Where is my home?]",
        "You live in {v}.",
        _one(CITIES),
    ),
    "color": Known(
        "[My favorite color is {v}.|I like {v} best.]",
        "{v} is a nice color.",
        "[What is my favorite color?|Which color do I like?]",
        "Your favorite color is {v}.",
        _one("red blue green yellow white black pink brown purple orange".split()),
    ),
    "food": Known(
        "[My favorite food is {v}.|I love to eat {v}.]",
        "[Mmm, {v}! That sounds good.|I have heard that {v} can be very good.]",
        "[What is my favorite food?|What do I love to eat?]",
        "Your favorite food is {v}.",
        _one([food for food in words.FOODS]),
    ),
    "animal": Known(
        "[My favorite animal is the {v}.|The animal I like best is the {v}.]",
        "The {v} is a wonderful animal.",
        "[What is my favorite animal?|Which animal do I like best?]",
        "Your favorite animal is the {v}.",
        _one([x for x in words.ANIMALS if x not in ("robot",)]),
    ),
    "pet": Known(
        "[I have {ax} named {v}.|My {x} is called {v}.|I have {ax}. Its name is {v}.]",
        "[{v} is a good name for {ax}.|I hope that {v} is a happy {x}.]",
        "[What is the name of my {x}?|What is my {x} called?|Do you know the name of my {x}?]",
        "Your {x} is called {v}.",
        _pet,
    ),
    "friend": Known(
        "[My {x} is called {v}.|The name of my {x} is {v}.|{v} is my {x}.]",
        "[{v} is a nice name.|Please say hello to {v} from me.]",
        "[What is the name of my {x}?|Who is my {x}?|What is my {x} called?]",
        "The name of your {x} is {v}.",
        _friend,
    ),
}
NOT_TOLD = (
    "I do not know that. You did not tell me.",
    "I do not know that. You did not tell me yet.",
)


@dataclass
class Memory:
    told: dict[str, dict[str, str]] = field(default_factory=dict)

    def tell(self, rng: random.Random) -> Turn | None:
        """One or two new things; the name first, most of the time."""
        left = [key for key in KNOWN if key not in self.told]
        if "pet" in self.told or "friend" in self.told:  # "my cat" and "my friend" may share a value's form
            left = [key for key in left if key not in ("pet", "friend")]
        if not left:
            return None
        first = "name" if "name" in left and rng.random() < 0.6 else rng.choice(left)
        chosen = [first]
        if rng.random() < 0.2 and len(left) > 1:
            chosen.append(
                rng.choice([key for key in left if key != first and key not in ("pet", "friend")] or [first])
            )
        said = []
        for key in dict.fromkeys(chosen):
            self.told[key] = KNOWN[key].values(rng)
            said.append(fill(KNOWN[key].said, self.told[key], rng))
        slots = self.told[first]
        answer = fill(KNOWN[first].noted, slots, rng)
        notes = (
            f"The user tells me about the {first}." if first != "name" else "The user tells me a name.",
            f"I will remember {slots['v']}.",
        )
        return Turn(" ".join(said), answer[0].upper() + answer[1:], notes)

    def ask(self, rng: random.Random) -> Turn:
        """A question about something told or, now and then, about something that was not."""
        missing = [key for key in ("name", "age", "city", "color", "food", "animal") if key not in self.told]
        if missing and (not self.told or rng.random() < 0.2):
            key = rng.choice(missing)
            user = fill(KNOWN[key].asked, {}, rng)
            return Turn(
                casual(user, rng),
                rng.choice(NOT_TOLD),
                ("I look at what the user told me.", "There is nothing about it."),
            )
        key = rng.choice(list(self.told))
        slots = self.told[key]
        answer = fill(KNOWN[key].answer, slots, rng)
        notes = ("I look at what the user told me.", f"It was {slots['v']}.", "I only have to say it again.")
        return Turn(casual(fill(KNOWN[key].asked, slots, rng), rng), answer, notes)

    def farewell(self, rng: random.Random) -> Turn:
        name = self.told.get("name", {}).get("v")
        tail = f", {name}" if name else ""
        user, answer = rng.choice((
            ("[Bye!|Goodbye!|See you!|Goodbye|Bye]", f"Goodbye{tail}! Come back soon."),
            ("[Thank you!|Thanks!|Thank you very much.]", f"You are welcome{tail}!"),
            ("[Good night!|Good night]", f"Good night{tail}! Sleep well."),
            ("[Hello again!|I am back.]", f"Hello again{tail}! What can I do for you?"),
        ))  # fmt: skip
        return Turn(
            fill(user, {}, rng), answer, ("The user just wants to talk.", "I will be friendly and short.")
        )
