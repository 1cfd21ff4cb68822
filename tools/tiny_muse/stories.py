"""Stories: a cast, a plot of text/plots*.txt, an opening and an end.

`make` gives the text, the ways a user may ask for it, the plan that a thought may speak of, and questions about it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from . import words
from .grammar import a, blocks, capital, fill, pick, tidy

TIMES = "One [[sunny |cold |windy |bright |quiet |warm |][morning|day|afternoon]|early morning]"
OPENINGS = (
    "[Once upon a time|Once|Long ago], there was {kind} named {n}.",
    "{n} was {kind}.",
    "There once was {kind}. {His} name was {n}.",
    "This is the story of {n}, {kind}.",
    "{n} was {kind} who lived {pl0}.",
    "[Once upon a time|Once|Long ago], there lived {kind} named {n}.",
    "{where0} lived {kind} named {n}.",
    "There was {kind} whose name was {n}.",
    "My friend {n} was {kind}.",
    "The {adj1} {base} {n} lived {pl0}.",
    "The [sun|moon] was [bright|high|round and yellow], and {kind} named {n} looked up at it.",
    "{Kind} named {n} lived {pl0}.",
)
HUMAN_TRAITS = (
    "{He} had [brown|black|red|curly|long|short] hair and a [big|kind|shy] smile.",
    "{He} liked to [sing|draw|run|play outside|read|climb trees|ask questions].",
    "{He} lived with {his} [mother and father|grandma|family].",
    "Everyone liked {him}, because {he} was [kind|funny|friendly].",
    "",
    "",
)
ANIMAL_TRAITS = (
    "{n} lived in {home}.",
    "{He} had {looks}.",
    "{He} loved to eat {food}.",
    "{He} loved to {move} [all day|around|with {his} friends].",
    "{He} had {looks} and loved to eat {food}.",
    "",
)
# Plain texts that begin in the middle, without an introduction.
BARE = (
    "{When}, {n} went to play {pl}.",
    "{n} was playing {pl}.",
    "{n} and {m} were friends.",
    "{When}, {n} was at home.",
    "{n} woke up early.",
    "{n} sat at the table and ate some {fd}.",
    "The {base} {n} was happy today.",
    "",
    "",
)
BARE_PLOTS = (
    "lose find share seed rain cook tall wish afraid treasure bridge echo shadow clock fog glasses".split()
)
SIGHTS = (
    "{see}.",
    "{see}. {hear}.",
    "{hear}.",
    "",
    "",
    "The sun was [warm|bright|high in the sky].",
    "The sky was [blue|gray|full of clouds].",
)
ENDS = (
    "{n} was very happy.",
    "It was a [good|very good|wonderful] day.",
    "From that day on, {n} and {m} were [best friends|good friends].",
    "That night, {n} slept very well.",
    "{n} [smiled|laughed] all the way home.",
    "And {n} never forgot that day.",
    "Then they went home together.",
    "{n} and {m} [laughed|smiled] and went home.",
    '"This was the best day," said {n}.',
    "",
)
NO_HOMES = ("on the playground", "at the market", "in the park")
DISHES = "cake soup bread pie cookies pancakes jam noodles".split()


@dataclass
class Plot:
    name: str
    ask: str
    plan: str
    own_end: bool = False
    beats: list[str] = field(default_factory=list)
    questions: list[tuple[str, str]] = field(default_factory=list)


def _read(name: str) -> list[Plot]:
    plots = []
    for head, rows in blocks(name):
        plot = Plot(*(part.strip() for part in head.split("|")))
        for row in rows:
            if row.startswith("? "):
                question, answer = row[2:].split(" = ")
                plot.questions.append((question, answer))
            elif row == "! own":
                plot.own_end = True
            else:
                plot.beats.append(row)
        plots.append(plot)
    return plots


PLOTS = {plot.name: plot for plot in _read("plots") + _read("plots_more")}


@dataclass
class Story:
    text: str
    who: str  # "a brave turtle named Gus": what a user may call the hero
    ask: str  # "loses a kite"
    where: str
    plan: str
    questions: list[tuple[str, str]]
    slots: dict[str, str]


def _pronouns(male: bool, tail: str = "") -> dict[str, str]:
    he, him, his = ("he", "him", "his") if male else ("she", "her", "her")
    small = {"he" + tail: he, "him" + tail: him, "his" + tail: his}
    return small | {capital(key): capital(value) for key, value in small.items()}


def character(rng: random.Random, human: bool) -> tuple[bool, str, str, str]:
    """(male, name, adjective, what it is)."""
    male = rng.random() < 0.5
    name = rng.choice(words.BOYS if male else words.GIRLS)
    if not human:
        return male, name, rng.choice(words.ADJECTIVES), rng.choice(ANIMAL_NAMES)
    if rng.random() < 0.72:
        return male, name, rng.choice(words.ADJECTIVES), "boy" if male else "girl"
    other = words.ONLY_WOMEN if male else words.ONLY_MEN
    job = rng.choice([job for job in words.JOBS if job not in other])
    return male, name, rng.choice(words.JOB_ADJECTIVES), job


ANIMAL_NAMES = list(words.ANIMALS)


def make(rng: random.Random, *, bare: bool = False, plot: str | None = None) -> Story:
    chosen = PLOTS[plot] if plot else rng.choice(list(PLOTS.values()))
    human = rng.random() < 0.45
    male, n, adj1, base = character(rng, human)
    while True:
        helper_human = chosen.name not in ("help", "kitten") and rng.random() < (0.6 if human else 0.15)
        male2, m, adj2, base2 = character(rng, helper_human)
        if m != n and base2 != base and adj2 != adj1:
            break
    o, fd, skill = (rng.choice(list(table)) for table in (words.THINGS, words.FOODS, words.SKILLS))
    thing, place = words.THINGS[o], rng.choice(list(words.PLACES.values()))
    home = rng.choice([p.where for p in words.PLACES.values() if p is not place and p.where not in NO_HOMES])
    adj = rng.choice(thing.adjectives)
    guide = rng.choice(("bird", "owl", "snail", "frog", "squirrel", "duck"))
    plural = fd.endswith("s") and fd != "cheese"
    slots = {
        "n": n, "m": m, "adj1": adj1, "base": base, "base2": base2,
        "kind": a(f"{adj1} {base}"), "kind2": a(f"{adj2} {base2}"),
        "Kind": capital(a(f"{adj1} {base}")), "Kind2": capital(a(f"{adj2} {base2}")),
        "young2": a(f"{rng.choice(('little', 'tiny', 'small', 'young'))} {base2}"),
        "o": o, "adj": adj, "ao": f"{adj} {o}", "a_o": a(o), "a_ao": a(f"{adj} {o}"), "A_ao": capital(a(f"{adj} {o}")),
        "use": thing.use, "used": thing.used, "hidden": thing.hidden,
        "fd": fd, "ft": words.FOODS[fd], "dish": rng.choice(DISHES),
        "fd_was": "were" if plural else "was", "fd_it": "they" if plural else "it",
        "fd_It": "They" if plural else "It", "fd_them": "them" if plural else "it",
        "pl": place.where, "pl0": home, "where0": capital(home), "see": place.sight, "hear": place.sound,
        "skill": skill, "fail": words.SKILLS[skill], "fear": rng.choice(words.FEARS),
        "When": TIMES, "sight": rng.choice(SIGHTS), "guide": a(guide), "guide_noun": guide,
        "hello": rng.choice(HELLOS), "thank": rng.choice(THANKS), "thank0": rng.choice(THANKS[:3]),
        **_pronouns(male), **_pronouns(male2, "2"),
    }  # fmt: skip
    if not human:
        animal = words.ANIMALS[base]
        slots |= {"move": animal.move, "food": animal.food, "home": animal.home, "looks": animal.looks}
    return _tell(chosen, slots, human, bare, rng)


HELLOS = (
    '"Hello," said {m}. "[Why are you so sad|What is wrong|Can I help you]?"',
    '"What is the matter?" asked {m}.',
    '"You look sad," said {m}. "What happened?"',
)
THANKS = (
    '"Thank you, {m}!" said {n}.',
    '"Thank you so much!" said {n}. "You are a good friend."',
    '"Thank you," said {n}. "You are very kind." "You are welcome," said {m}.',
    "{n} gave {m} a big hug.",
)


def _tell(plot: Plot, slots: dict[str, str], human: bool, bare: bool, rng: random.Random) -> Story:
    parts = []
    if bare and plot.name in BARE_PLOTS:
        parts.append(rng.choice(BARE))
    else:
        parts.append(rng.choice(OPENINGS))
        parts.append(rng.choice(HUMAN_TRAITS if human else ANIMAL_TRAITS))
    half = len(plot.beats) // 2
    cut = rng.choice((None, None, half, half + 1))
    for i, beat in enumerate(plot.beats):
        parts.append("\n\n" + beat if i == cut else beat)
    if not plot.own_end:
        parts.append(rng.choice(ENDS))
    text = tidy(fill(" ".join(parts), slots, rng))
    n, m, adj, base = slots["n"], slots["m"], slots["adj1"], slots["base"]
    both = plot.name in ("fight", "race", "cook", "hide", "picnic")
    who = rng.choice(
        (f"{a(adj)} {base} named {n}", f"{a(base)} named {n}", f"{a(adj)} {base}", a(base))
        + ((f"{n} and {m}",) if both else ())
    )
    questions = [(fill(q, slots, rng), fill(answer, slots, rng)) for q, answer in plot.questions]
    questions.append((f"Who is {m}?", f"{m} is {slots['kind2']}."))
    questions.append(("What is the name of the hero?", f"The name of the hero is {n}."))
    where = slots["pl"] if any("{pl}" in beat for beat in plot.beats) else ""
    return Story(text, who, fill(plot.ask, slots, rng), where, fill(plot.plan, slots, rng), questions, slots)


ASK = (
    "Tell me a story about {who} who {ask}.",
    "Tell me a story about {who} who {ask}.",
    "Tell me a story about {who}.",
    "Tell me a story about {who}.",
    "Tell me a short story about {who}.",
    "Write a story about {who} who {ask}.",
    "Can you tell me a story about {who}?",
    "Please write a short story about {who}.",
    "I want to hear a story about {who}.",
    "Write a story where {who} {ask}.",
    "Tell me a story.",
    "Tell me a [short|nice|little] story, please.",
    "A story about {who}, please.",
    "Could you tell me a [bedtime |short |]story about {who} who {ask}?",
)


def request(story: Story, rng: random.Random) -> str:
    """Something a user may have said to get this story."""
    if story.where and rng.random() < 0.08:
        return f"Tell me a story about {story.who} {story.where}."
    ask = rng.choice(ASK)
    if " and " in story.who:
        ask = ask.replace(" who {ask}", "").replace(
            "Write a story where {who} {ask}", "Write a story about {who}"
        )
    return fill(ask, {"who": story.who, "ask": story.ask}, rng)


def animals_and_people() -> list[str]:
    return ["boy", "girl", *words.JOBS, *ANIMAL_NAMES]


if __name__ == "__main__":
    generator = random.Random(3)
    for name in PLOTS:
        s = make(generator, plot=name)
        print(f"## {name}: {request(s, generator)} [{s.plan}]\n{s.text}\n{s.questions}\n")
    print(pick(TIMES, generator))
