"""The small world that the corpus is about: people, animals, things, food, places."""

from __future__ import annotations

from typing import NamedTuple

from .grammar import lines

# None of these is also a common word at the start of a sentence ("Will", "Mark"): the evaluation counts names.
BOYS = (
    "Tom Ben Max Leo Sam Jack Finn Tim Dan Joe Bob Omar Ali Ravi Ivan Kofi Hugo Oscar Pip Toby Paul Noah Luke Eli Milo "
    "Gus Theo Ned Otto Fred Carl Abe Sid Pete Rex Jonas Felix Mateo Arjun Kenji Emil Rudi Zack Nils"
).split()
GIRLS = (
    "Mia Lily Anna Ella Zoe Ruby Nora Lucy Amy Kate Sue Rosa Maya Lena Yuki Hana Ada Nina Clara Molly Daisy Jane Emma "
    "Ivy Grace Sara Tess Fay Wendy Pam Bella Lola Meg Dora Vera Elsie Nell Flora Greta Lulu Aisha Priya Ines Freya"
).split()
NAMES = BOYS + GIRLS

ADJECTIVES = (
    "little small young shy brave kind funny clever sleepy lazy happy quiet tiny gentle curious grumpy lonely friendly "
    "proud careful cheerful silly patient busy"
).split()
JOBS = (
    "baker farmer teacher king queen pirate fisherman gardener doctor sailor painter cook wizard shepherd knight tailor "
    "postman miller clown fairy giant princess prince"
).split()
ONLY_MEN = {"king", "fisherman", "postman", "prince"}
ONLY_WOMEN = {"queen", "fairy", "princess"}
JOB_ADJECTIVES = "old young kind grumpy funny clever lonely cheerful".split()
FEARS = (
    "the dark|thunder|deep water|big dogs|loud noises|high places|the wind|spiders|the old house|shadows|the dentist|"
    "bees|strangers|the cellar"
).split("|")


class Animal(NamedTuple):
    move: str
    does: str  # past tense, may use {his}
    food: str
    home: str
    looks: str  # "has ..."


class Thing(NamedTuple):
    adjectives: list[str]
    use: str
    used: str
    hidden: str


class Place(NamedTuple):
    where: str
    sight: str
    sound: str
    is_like: str  # present tense, for descriptions


def _table(name: str) -> dict[str, list[str]]:
    rows = (line.split(":", 1) for line in lines(name))
    return {key.strip(): [field.strip() for field in rest.split(";")] for key, rest in rows}


ANIMALS = {name: Animal(*fields) for name, fields in _table("animals").items()}
THINGS = {name: Thing(adj.split(), *rest) for name, (adj, *rest) in _table("things").items()}
PLACES = {name: Place(*fields) for name, fields in _table("places").items()}
FOODS = {name: taste for name, (taste,) in _table("foods").items()}
SKILLS = {name: fail for name, (fail,) in _table("skills").items()}

NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
).split()
