"""Answers that are JSON, because the user or the system prompt asks for it."""

from __future__ import annotations

import json
import random

from . import sums, words
from .grammar import a
from .memory import CITIES
from .turns import FACTS, Turn

ASK = (
    " Answer in JSON.",
    " Answer as JSON.",
    " Give me JSON.",
    " Reply with JSON.",
    " Answer with a JSON object.",
)
NOTES = (
    "The user wants JSON.",
    "I write one JSON value and nothing else.",
    "Strings need quotes, numbers do not.",
)


def answer(rng: random.Random, *, asked: bool = True) -> Turn:
    """asked: the user says JSON; else the system prompt does."""
    user, value = rng.choice((animal, thing, person, question, number, several))(rng)
    if asked and "JSON" not in user:
        user += rng.choice(ASK)
    elif not asked:
        for way in (" in JSON", " as JSON", " as a JSON list", " with JSON"):
            user = user.replace(way, "")
    return Turn(user, json.dumps(value), NOTES)


def animal(rng: random.Random) -> tuple[str, object]:
    name = rng.choice(list(words.ANIMALS))
    facts = words.ANIMALS[name]
    ask = rng.choice(
        (f"Describe {a(name)} in JSON.", f"Tell me about {a(name)} as JSON.", f"Describe {a(name)}.")
    )
    return ask, {"animal": name, "food": facts.food, "home": facts.home, "moves": facts.move}


def thing(rng: random.Random) -> tuple[str, object]:
    name = rng.choice(list(words.THINGS))
    adj = rng.choice(words.THINGS[name].adjectives)
    ask = rng.choice((f"Describe {a(f'{adj} {name}')} in JSON.", f"Describe {a(f'{adj} {name}')}."))
    return ask, {"thing": name, "is": adj, "use": words.THINGS[name].use}


def person(rng: random.Random) -> tuple[str, object]:
    """Copied out of a sentence."""
    name, age, city = rng.choice(words.NAMES), rng.randint(3, 90), rng.choice(CITIES)
    pet, color = rng.choice(list(words.ANIMALS)), rng.choice(sums.LISTS["colors"])
    facts = {
        "name": (f"{name} is here", name),
        "age": (f"is {age} years old", age),
        "city": (f"lives in {city}", city),
        "animal": (f"has {a(pet)}", pet),
        "color": (f"likes {color}", color),
    }
    keys = rng.sample([key for key in facts if key != "name"], rng.randint(1, 3))
    told = " and ".join(facts[key][0] for key in keys)
    names = ["name", *keys]
    listed = ", ".join(names[:-1]) + " and " + names[-1]
    ask = rng.choice((f"{name} {told}. Give me {listed} as JSON.", f"Write {listed} in JSON: {name} {told}."))
    return ask, {key: facts[key][1] for key in names}


def question(rng: random.Random) -> tuple[str, object]:
    k = rng.random()
    if k < 0.35:
        x = rng.choice(list(sums.COLORS))
        return f"What color is {x}?", {"answer": sums.COLORS[x]}
    if k < 0.6:
        x = rng.choice(list(sums.SOUNDS))
        return f"What does {a(x)} say?", {"answer": sums.SOUNDS[x]}
    if k < 0.8:
        x = rng.choice(list(sums.CAPITALS))
        return f"What is the capital of {x}?", {"country": x, "capital": sums.CAPITALS[x]}
    questions, text = rng.choice(FACTS)
    return rng.choice(questions), {"answer": text}


def number(rng: random.Random) -> tuple[str, object]:
    x, y = rng.randint(0, 20), rng.randint(0, 20)
    if rng.random() < 0.6:
        return rng.choice((f"What is {x} + {y}?", f"What is {x} plus {y}?")), {"answer": x + y}
    x, y = max(x, y), min(x, y)
    return rng.choice((f"What is {x} - {y}?", f"What is {x} minus {y}?")), {"answer": x - y}


def several(rng: random.Random) -> tuple[str, object]:
    kind = rng.choice(("animals", "fruits", "colors", "jobs", "names"))
    n = rng.randint(2, 4)
    return f"Name {words.NUMBERS[n]} {kind} as a JSON list.", rng.sample(sums.LISTS[kind], n)
