"""Little questions with exact answers: sums, opposites, sounds, colors, days, legs, babies, capitals, counting."""

from __future__ import annotations

import random

from . import words
from .grammar import a, capital, fill
from .turns import Turn, casual

SIMPLE = ("This is a simple question.", "A short answer is best.")


def arithmetic(rng: random.Random) -> Turn:
    k = rng.random()
    if k < 0.45:
        return plus(rng, 10) if rng.random() < 0.6 else minus(rng, 10)
    if k < 0.75:
        return plus(rng, 99) if rng.random() < 0.6 else minus(rng, 99)
    return times(rng) if k < 0.87 else story_sum(rng)


def ask(x: int, sign: str, word: str, y: int, rng: random.Random) -> str:
    forms = f"What is {x} {sign} {y}?|What is {x} {word} {y}?|What is {x}{sign}{y}?|{x} {sign} {y} = ?|How much is {x} {word} {y}?|{x} {sign} {y}"
    return rng.choice(forms.split("|"))


def plus(rng: random.Random, most: int) -> Turn:
    x, y = rng.randint(0, most), rng.randint(0, most)
    total = x + y
    notes = [f"The user asks for {x} plus {y}.", f"{x} plus {y} is {total}."]
    if x > 9 and y > 9:
        ones, carry = x % 10 + y % 10, (x % 10 + y % 10) // 10
        write = f", so I write {ones % 10} and carry 1" if carry else ""
        tens = f"{x // 10} plus {y // 10}" + (" plus 1" if carry else "")
        notes[1] = (
            f"The ones: {x % 10} plus {y % 10} is {ones}{write}. The tens: {tens} is {x // 10 + y // 10 + carry}. So it is {total}."
        )
    notes.append(f"I check it: {total} minus {y} is {x}.")
    return Turn(ask(x, "+", "plus", y, rng), f"{x} plus {y} is {total}.", tuple(notes))


def minus(rng: random.Random, most: int) -> Turn:
    x, y = rng.randint(0, most), rng.randint(0, most)
    x, y = max(x, y), min(x, y)
    notes = [f"The user asks for {x} minus {y}.", f"{x} minus {y} is {x - y}."]
    if x > 9 and y > 9:
        borrow = int(x % 10 < y % 10)
        ones = f"{x % 10 + 10 * borrow} minus {y % 10} is {(x - y) % 10}" + (
            ", and I borrow 1" if borrow else ""
        )
        tens = f"{x // 10} minus {y // 10}" + (" minus 1" if borrow else "")
        notes[1] = f"The ones: {ones}. The tens: {tens} is {x // 10 - y // 10 - borrow}. So it is {x - y}."
    notes.append(f"I check it: {x - y} plus {y} is {x}.")
    return Turn(ask(x, "-", "minus", y, rng), f"{x} minus {y} is {x - y}.", tuple(notes))


def times(rng: random.Random) -> Turn:
    x, y = rng.randint(0, 10), rng.randint(0, 10)
    steps = f"{x} times {y} is {y} added {x} times." if 1 < x else "I know this one."
    notes = (f"The user asks for {x} times {y}.", f"{x} times {y} is {x * y}.", steps)
    return Turn(ask(x, "*", "times", y, rng), f"{x} times {y} is {x * y}.", notes)


def story_sum(rng: random.Random) -> Turn:
    thing = rng.choice("apples pears cookies shells coins marbles flowers balloons books eggs stones".split())
    x, y = rng.randint(2, 12), rng.randint(1, 10)
    who = rng.choice(("I", "I", *words.NAMES[:40]))
    verb, they, have = ("have", "I", "You have") if who == "I" else ("has", who, f"{who} has")
    if rng.random() < 0.5:
        total, sign = x + y, "plus"
        more = rng.choice(
            (f"get{'' if who == 'I' else 's'} {y} more", f"find{'' if who == 'I' else 's'} {y} more")
        )
    else:
        x, y = max(x, y) + 1, min(x, y)
        total, sign = x - y, "minus"
        more = rng.choice(
            (f"give{'' if who == 'I' else 's'} away {y}", f"lose{'' if who == 'I' else 's'} {y}")
        )
    one = total == 1
    item = {"cookies": "cookie"}.get(thing, thing[:-1]) if one else thing
    ask_how = f"How many {thing} do I have now?" if who == "I" else f"How many {thing} does {they} have now?"
    notes = (
        f"I have to count {thing}.",
        f"It is {x} {sign} {y}, and that is {total}.",
        f"So {have[0].lower() + have[1:] if who == 'I' else have} {total}.",
    )
    return Turn(f"{who} {verb} {x} {thing} and {more}. {ask_how}", f"{have} {total} {item} now.", notes)


def compare(rng: random.Random) -> Turn:
    x, y = rng.sample(range(100), 2)
    k = rng.random()
    if k < 0.4:
        return Turn(
            f"Which is bigger, {x} or {y}?",
            f"{max(x, y)} is bigger than {min(x, y)}.",
            (f"I compare {x} and {y}.", f"{max(x, y)} is more."),
        )
    if k < 0.6:
        return Turn(
            f"Which is smaller, {x} or {y}?",
            f"{min(x, y)} is smaller than {max(x, y)}.",
            (f"I compare {x} and {y}.", f"{min(x, y)} is less."),
        )
    if k < 0.8:
        word, yes = rng.choice((("even", x % 2 == 0), ("odd", x % 2 == 1)))
        return Turn(
            f"Is {x} {word}?",
            f"{'Yes' if yes else 'No'}, {x} is {'even' if x % 2 == 0 else 'odd'}.",
            (f"I look at the last digit of {x}.", f"It is {x % 10}."),
        )
    step = rng.choice((("after", 1), ("before", -1)))
    x = max(1, x)
    return Turn(f"Which number comes {step[0]} {x}?", f"{x + step[1]} comes {step[0]} {x}.", SIMPLE)


OPPOSITES = (
    "big small;hot cold;up down;happy sad;fast slow;old young;day night;open closed;wet dry;hard soft;long short;full empty;"
    "light dark;good bad;rich poor;loud quiet;clean dirty;strong weak;high low;near far;early late;left right;in out;yes no;"
    "black white;thick thin;sweet sour;first last;wide narrow;awake asleep;brave afraid;inside outside;begin end;love hate;"
    "push pull;win lose;true false;over under;more less;always never"
).split(";")
SOUNDS = dict(pair.split() for pair in (
    "dog woof;cat meow;cow moo;duck quack;sheep baa;pig oink;bird tweet;lion roar;frog ribbit;bee buzz;mouse squeak;owl hoo;"
    "hen cluck;snake hiss;wolf howl;horse neigh;goat baa;rooster cock-a-doodle-doo"
).split(";"))  # fmt: skip
COLORS = dict(pair.split("=") for pair in (
    "the sky=blue;grass=green;snow=white;the sun=yellow;a banana=yellow;a strawberry=red;a carrot=orange;coal=black;milk=white;"
    "a lemon=yellow;a tomato=red;a leaf=green;an elephant=gray;chocolate=brown;a frog=green;a polar bear=white;a crow=black;"
    "a pig=pink;an orange=orange;the sea=blue;a cherry=red;a fox=red;wood=brown;a cloud=white;a mouse=gray;a plum=purple"
).split(";"))  # fmt: skip
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
LEGS = {"dog": 4, "cat": 4, "bird": 2, "spider": 8, "ant": 6, "cow": 4, "duck": 2, "horse": 4, "bee": 6, "hen": 2, "fox": 4,
        "snake": 0, "fish": 0, "octopus": 8, "elephant": 4, "frog": 4, "beetle": 6, "whale": 0}  # fmt: skip
BABIES = dict(pair.split() for pair in (
    "dog puppy;cat kitten;cow calf;sheep lamb;horse foal;duck duckling;hen chick;frog tadpole;bear cub;goat kid;goose gosling;"
    "pig piglet;deer fawn;lion cub;swan cygnet;owl owlet"
).split(";"))  # fmt: skip
CAPITALS = dict(pair.split("=") for pair in (
    "France=Paris;Germany=Berlin;Italy=Rome;Spain=Madrid;Japan=Tokyo;England=London;China=Beijing;Egypt=Cairo;Russia=Moscow;"
    "Greece=Athens;Canada=Ottawa;India=New Delhi;Portugal=Lisbon;Norway=Oslo;Sweden=Stockholm;Austria=Vienna;Poland=Warsaw;"
    "Turkey=Ankara;Kenya=Nairobi;Cuba=Havana;Ireland=Dublin;Scotland=Edinburgh;Hungary=Budapest;Australia=Canberra"
).split(";"))  # fmt: skip
RHYMES = "cat hat;moon spoon;tree bee;house mouse;star car;night light;sun fun;dog frog;cake lake;boat goat;bear chair;rain train;snow crow;bed red;king ring;ball wall;fish dish;door floor;hand sand;book cook".split(
    ";"
)
LISTS = {
    "animals": list(words.ANIMALS),
    "fruits": "apples pears bananas cherries lemons oranges plums grapes".split(),
    "colors": "red blue green yellow white black pink brown".split(),
    "names": words.NAMES,
    "jobs": "baker doctor teacher farmer pilot nurse painter singer sailor tailor".split(),
    "days of the week": DAYS,
    "toys": "a ball|a doll|a kite|a truck|a puzzle|a drum".split("|"),
    "things in a kitchen": "a spoon|a pot|a cup|a table|a knife|a bowl".split("|"),
}


def table_question(rng: random.Random) -> Turn:
    """Animals and things of the corpus's own world (words.py)."""
    animal, o = rng.choice(list(words.ANIMALS)), rng.choice(list(words.THINGS))
    facts, thing = words.ANIMALS[animal], words.THINGS[o]
    x, y = a(animal), a(o)
    user, answer = rng.choice((
        (f"What does {x} eat?", f"{capital(x)} likes to eat {facts.food}."),
        (f"Where does {x} live?", f"{capital(x)} lives in {facts.home}."),
        (f"What does {x} look like?", f"{capital(x)} has {facts.looks}."),
        (f"How does {x} move?", f"{capital(x)} can {facts.move}."),
        (f"What can I do with {y}?", f"You can {thing.use} it."),
        (f"What is {y} for?", f"{capital(y)} is something you can {thing.use}."),
        (f"I lost my {o}. Where can it be?", f"Maybe it is {thing.hidden}. Look there first."),
    ))  # fmt: skip
    return Turn(casual(user, rng), answer, SIMPLE)


def list_question(rng: random.Random) -> Turn:
    kind = rng.choice(list(LISTS))
    n = rng.randint(2, 4)
    chosen = rng.sample(LISTS[kind], n)
    answer = capital(", ".join(chosen[:-1]) + " and " + chosen[-1] + ".")
    user = fill(f"[Name|Tell me|Can you name|Give me] {words.NUMBERS[n]} {kind}.", {}, rng)
    return Turn(
        user.replace("name", "name").replace(".", "?") if user.startswith("Can") else user,
        answer,
        (f"I need {n} {kind}.", "Any of them will do."),
    )


def exact(rng: random.Random) -> Turn:
    """One question with one right answer."""
    k = rng.randrange(13)
    if k < 3:
        return arithmetic(rng)
    if k == 3:
        return compare(rng)
    if k == 4:
        return list_question(rng)
    if k == 5:
        return table_question(rng)
    if k == 6:
        x, y = rng.choice(OPPOSITES).split()
        x, y = (x, y) if rng.random() < 0.5 else (y, x)
        return Turn(
            casual(rng.choice((f"What is the opposite of {x}?", f'What is the opposite of "{x}"?')), rng),
            f"The opposite of {x} is {y}.",
            SIMPLE,
        )
    if k == 7:
        x = rng.choice(list(SOUNDS))
        return Turn(
            casual(rng.choice((f"What does {a(x)} say?", f"What sound does {a(x)} make?")), rng),
            f"{capital(a(x))} says {SOUNDS[x]}.",
            SIMPLE,
        )
    if k == 8:
        x = rng.choice(list(COLORS))
        return Turn(
            casual(rng.choice((f"What color is {x}?", f"Which color is {x}?")), rng),
            f"{capital(x)} is {COLORS[x]}.",
            SIMPLE,
        )
    if k == 9:
        rows, word = (DAYS, "day") if rng.random() < 0.6 else (MONTHS, "month")
        i = rng.randrange(len(rows))
        step, where = rng.choice(((1, "after"), (-1, "before")))
        other = rows[(i + step) % len(rows)]
        return Turn(
            casual(f"What {word} comes {where} {rows[i]}?", rng), f"{other} comes {where} {rows[i]}.", SIMPLE
        )
    if k == 10:
        if rng.random() < 0.5:
            x = rng.choice(list(LEGS))
            return Turn(
                casual(f"How many legs does {a(x)} have?", rng),
                f"{capital(a(x))} has {words.NUMBERS[LEGS[x]] if LEGS[x] else 'no'} legs.",
                SIMPLE,
            )
        x = rng.choice(list(BABIES))
        return Turn(
            casual(rng.choice((f"What is a baby {x} called?", f"What do you call a baby {x}?")), rng),
            f"A baby {x} is called a {BABIES[x]}."
            if BABIES[x][0] not in "aeio"
            else f"A baby {x} is called an {BABIES[x]}.",
            SIMPLE,
        )
    if k == 11:
        x = rng.choice(list(CAPITALS))
        return Turn(
            casual(rng.choice((f"What is the capital of {x}?", f"Which city is the capital of {x}?")), rng),
            f"The capital of {x} is {CAPITALS[x]}.",
            SIMPLE,
        )
    j = rng.random()
    if j < 0.35:
        x, y = rng.choice(RHYMES).split()
        x, y = (x, y) if rng.random() < 0.5 else (y, x)
        return Turn(
            casual(rng.choice((f"What rhymes with {x}?", f"Tell me a word that rhymes with {x}.")), rng),
            f"{capital(y)} rhymes with {x}.",
            SIMPLE,
        )
    if j < 0.7:
        x = rng.randint(1, 9)
        y = x + rng.randint(3, 9)
        return Turn(
            rng.choice((f"Count from {x} to {y}.", f"Can you count from {x} to {y}?")),
            ", ".join(map(str, range(x, y + 1))) + ".",
            (f"I count from {x} to {y}.", "One step at a time."),
        )
    name, adj, animal = rng.choice(words.NAMES), rng.choice(words.ADJECTIVES), rng.choice(list(words.ANIMALS))
    say = rng.choice(
        (
            f"{name} is {a(f'{adj} {animal}')}.",
            f"The {adj} {animal} is here.",
            f"I like {name}.",
            f"{name} and the {animal}.",
        )
    )
    return Turn(
        rng.choice((f"Say: {say}", f"Repeat after me: {say}", f'Write "{say}"')),
        say,
        ("I should repeat the words.", "I change nothing."),
    )
