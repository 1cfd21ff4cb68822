"""One turn of a chat: what the user says, what the model answers, and what it may think before.

A thought is the first sentences of `notes`: none at reasoning strength low, one at medium, two at high, all at xhigh.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from . import stories, words
from .grammar import a, blocks, capital, fill, lines, pick, tidy

LEVELS = ("low", "medium", "high", "xhigh")
SENTENCES = {"low": 0, "medium": 1, "high": 2, "xhigh": 9}


@dataclass
class Call:
    """A function call that the model makes before it answers, and what the function returns."""

    name: str
    arguments: dict[str, object]
    output: str
    after: tuple[str, ...] = ()  # notes of the thought that follows the result


@dataclass
class Turn:
    user: str
    answer: str
    notes: tuple[str, ...] = ()
    call: Call | None = None
    story: stories.Story | None = None  # so that later turns can ask about it


def thought(notes: tuple[str, ...], level: str | None) -> str:
    return " ".join(notes[: SENTENCES[level or "low"]])


def story(rng: random.Random) -> Turn:
    s = stories.make(rng)
    slots = s.slots
    hero = f"The hero is {slots['n']}, {slots['kind']}."
    notes = (
        f"The user wants a story{f' about {s.who}' if rng.random() < 0.7 else ''}.",
        f"The plan: {s.plan}.",
        f"{hero} {slots['m']} is {slots['kind2']}.",
        "I will use simple words and short sentences, and it will end well.",
    )
    user = stories.request(s, rng)
    if "about" not in user and "where" not in user:
        notes = ("The user wants a story.", *notes[1:])
    else:
        notes = (f"The user wants a story about {s.who}.", *notes[1:])
    return Turn(casual(user, rng), s.text, notes, story=s)


TALKS = [(head.split("|"), rows) for head, rows in blocks("talks")]
FAMILY = ("Mother", "Father", "Grandma", "Grandpa", "Teacher")


def talk(rng: random.Random) -> Turn:
    """A short dialogue between two children, two animals, or a child and a grown-up."""
    topics, rows = rng.choice(TALKS)
    one, two = rng.sample(words.NAMES, 2)
    kind = rng.random()
    if kind < 0.3:
        animals = rng.sample(list(words.ANIMALS), 2)
        one, two = map(capital, animals)
        between = f"{a(animals[0])} and {a(animals[1])}"
    elif kind < 0.5:
        his = "his" if one in words.BOYS else "her"
        two = rng.choice(FAMILY)
        between = f"{one} and " + ("a teacher" if two == "Teacher" else f"{his} {two.lower()}")
    else:
        between = f"{one} and {two}"
    o, fd = rng.choice(list(words.THINGS)), rng.choice(list(words.FOODS))
    thing = words.THINGS[o]
    adj = rng.choice(thing.adjectives)
    place = rng.choice(list(words.PLACES))
    slots = {
        "a": one, "b": two, "o": o, "a_o": a(o), "a_ao": a(f"{adj} {o}"), "adj": adj, "use": thing.use,
        "hidden": thing.hidden, "fd": fd, "ft": words.FOODS[fd], "fear": rng.choice(words.FEARS), "place": place,
        "where": words.PLACES[place].where,
    }  # fmt: skip
    topic = fill(rng.choice(topics), slots, rng)
    ask = "Write a [short |]talk between {p} about {t}.|Write a [talk|dialogue] between {p}.|What would {p} say about {t}?"
    user = fill(f"[{ask}]", {"p": between, "t": topic}, rng)
    notes = (
        f"The user wants a talk between {between}.",
        f"It is about {topic}.",
        "Each line starts with the name of the one who speaks.",
    )
    return Turn(casual(user, rng), "\n".join(fill(row, slots, rng) for row in rows), notes)


def description(rng: random.Random) -> Turn:
    kind = rng.random()
    if kind < 0.5:
        animal = rng.choice(list(words.ANIMALS))
        facts = words.ANIMALS[animal]
        adj = rng.choice(words.ADJECTIVES)
        he = rng.choice(("He", "She", "It"))
        rest = [
            f"{he} lives in {facts.home}.",
            f"{he} likes to eat {facts.food}.",
            f"{he} likes to {facts.move}.",
        ]
        rng.shuffle(rest)
        what, text = (
            a(f"{adj} {animal}"),
            " ".join([f"The {adj} {animal} has {facts.looks}.", *rest[: rng.randint(2, 3)]]),
        )
    elif kind < 0.8:
        o = rng.choice(list(words.THINGS))
        thing = words.THINGS[o]
        adj = rng.choice(thing.adjectives)
        slots = {"t": f"{adj} {o}", "u": thing.use, "h": thing.hidden, "n": rng.choice(words.NAMES)}
        what = a(slots["t"])
        text = fill(
            f"[It is {what}.|This is {what}.] [It looks [old|new|nice|pretty]|It is quite [big|small|nice]]. You can {{u}} it. "
            "[{n} likes to {u} it|{n} keeps it in a safe place|It was a gift for {n}]. "
            "[When it is lost, you may find it {h}|Today it is {h}|Sometimes it is {h}].",
            slots, rng,
        )  # fmt: skip
    else:
        name = rng.choice(list(words.PLACES))
        what = f"the {name}"
        text = fill(
            "The {p} is a [nice|quiet|pretty|lovely] place. {is}. [People like to come here|Children like to play here|"
            "It is good to rest here], and [some bring {f}|they stay until the evening|the air is fresh].",
            {"p": name, "is": words.PLACES[name].is_like, "f": rng.choice(list(words.FOODS))}, rng,
        )  # fmt: skip
    ask = "Describe {x}.|Describe {x}.|What is {x} like?|Can you describe {x}?|Tell me about {x}.|Describe {x} in a few sentences."
    notes = (
        f"I should describe {what}.",
        "A few short sentences are enough.",
        "I say how it looks and what it is for.",
    )
    return Turn(casual(fill(f"[{ask}]", {"x": what}, rng), rng), text, notes)


COUPLETS = lines("poems")


def poem(rng: random.Random) -> Turn:
    animal = rng.choice([x for x in words.ANIMALS if x not in ("dragon", "robot")])
    rows = rng.sample(COUPLETS, rng.choice((2, 2, 3)))
    text = "\n".join(fill(row, {"x": animal}, rng) for row in rows).replace("\\n", "\n")
    ask = (
        "Write a [short |little |]poem.|Tell me a poem, please.|Write a poem about {x}.|Can you write a small poem?|"
        "Write a poem about the [night|sea|moon|winter|spring].|Write a poem for {n}.|Write a little song."
    )
    user = fill(f"[{ask}]", {"x": a(animal), "n": rng.choice(words.NAMES)}, rng)
    notes = (
        "The user wants a poem.",
        "Two lines that rhyme, and then two more.",
        "It should sound soft and be easy to say.",
    )
    return Turn(casual(user, rng), tidy(text), notes)


def _pairs(name: str) -> list[tuple[list[str], str]]:
    return [(q.split("|"), answer) for q, answer in (line.split(" = ", 1) for line in lines(name))]


FACTS, SMALLTALK = _pairs("facts"), _pairs("smalltalk")


def fact(rng: random.Random) -> Turn:
    questions, answer = rng.choice(FACTS)
    user = rng.choice(questions)
    notes = (
        pick("[This is a simple question.|I know this.|The user wants to know something.]", rng),
        pick("[A short answer is best.|I will answer in simple words.]", rng),
        f'The question is: "{user}" {pick("[I am sure about it.|One or two sentences are enough.]", rng)}',
    )
    return Turn(casual(user, rng), answer, notes)


def smalltalk(rng: random.Random) -> Turn:
    said, answer = rng.choice(SMALLTALK)
    notes = (
        "The user just wants to talk.",
        "I will be friendly and short.",
        "There is nothing to look up here.",
    )
    return Turn(rng.choice(said), answer, notes)


UNKNOWN = [line for line in lines("unknown") if not line.startswith("= ")]
UNKNOWN_ANSWERS = [line[2:] for line in lines("unknown") if line.startswith("= ")]
STRANGE = {
    "c": "Brazil Peru Chile Finland Nepal Ghana Iceland Mexico Vietnam Texas Mongolia Iran Chad Belgium Denmark".split(),
    "w": ["Hamlet", "War and Peace", "Don Quixote", "the Odyssey", "Faust", "Moby Dick", "Dracula", "Macbeth", "Emma"],
    "p": "Albert Einstein|Napoleon|Isaac Newton|Cleopatra|Mozart|Marie Curie|Plato|Alan Turing|Picasso|Darwin".split("|"),
    "s": "quantum physics|a neural network|democracy|photosynthesis|the stock market|a black hole|inflation|gravity|"
    "machine learning|a GPU|electricity|philosophy|chemistry|the internet|Python|relativity|a transformer|recursion|"
    "tax law|evolution|bitcoin|a vaccine|the theory of everything|a compiler|calculus|DNA".split("|"),
    "t": ["good morning", "thank you", "the house", "I love you", "water", "my friend", "where is the station"],
    "l": "French German Spanish Italian Latin Japanese Chinese Russian Greek Turkish".split(),
    "f": "bonjour guten tag gracias arigato ciao schadenfreude".replace("guten tag", "guten_tag").split(),
    "g": ["sorts a list", "adds two numbers", "prints hello world", "reads a file", "finds prime numbers"],
    "pl": "Python C Java Rust Go JavaScript SQL".split(),
    "b": ["car", "phone", "computer", "movie", "laptop", "restaurant", "camera", "printer"],
    "song": ["Yesterday", "Imagine", "Thriller", "Hey Jude"],
}  # fmt: skip


def unknown(rng: random.Random) -> Turn:
    """An honest refusal: most of the world is too big for this model."""
    slots = {key: rng.choice(values).replace("_", " ") for key, values in STRANGE.items()}
    slots |= {"n1": str(rng.randint(12, 999)), "n2": str(rng.randint(12, 99)), "d": str(rng.randint(4, 12))}
    slots["y"] = str(rng.randint(1500, 2024))
    notes = (
        "I do not know this.",
        "It is better to say so than to guess.",
        "I am very small and know only a few simple things.",
    )
    return Turn(casual(fill(rng.choice(UNKNOWN), slots, rng), rng), rng.choice(UNKNOWN_ANSWERS), notes)


def casual(user: str, rng: random.Random) -> str:
    """Not everybody types well: sometimes no capital, sometimes no mark at the end."""
    k = rng.random()
    if k < 0.07:
        user = user[0].lower() + user[1:]
    if k < 0.035 or 0.07 < k < 0.12:
        user = user.rstrip(".?!")
    return user
