"""Chats with functions: a calculator and a clock above all, weather and dice so that names and arguments are read
from the prompt and not only known by heart."""

from __future__ import annotations

import json
import random

from .memory import CITIES
from .turns import Call, Turn

Function = dict[str, object]  # {"name", "description", "parameters"}


def function(name: str, description: str, **parameters: str) -> Function:
    """JSON Schema of a function whose parameters are all needed; value: the description of one, with its type."""
    properties = {}
    for key, text in parameters.items():
        kind, _, about = text.partition(":")
        properties[key] = {"type": kind, "description": about} if about else {"type": kind}
    schema: dict[str, object] = {"type": "object", "properties": properties}
    if properties or len(name) % 2:  # both forms of an empty list are common
        schema["required"] = list(properties)
    return {"name": name, "description": description, "parameters": schema}


def calculator(rng: random.Random) -> Function:
    name = rng.choice(
        ("calculator.evaluate",) * 6
        + ("calculator.compute", "math.evaluate", "calc.run", "calculator.calculate")
    )
    key = rng.choice(("expression",) * 5 + ("formula", "text"))
    about = rng.choice(
        ("Computes an expression.", "Evaluates an arithmetic expression.", "A calculator.", "Does sums.")
    )
    return function(name, about, **{key: rng.choice(("string", "string:such as 2 + 3"))})


def clock(rng: random.Random) -> Function:
    name = rng.choice(("clock.now",) * 6 + ("clock.get_time", "time.now", "clock.time"))
    return function(
        name,
        rng.choice(("The time now.", "Says what time it is.", "The date and the time.", "Current time.")),
    )


def weather(rng: random.Random) -> Function:
    name = rng.choice(("weather.get", "weather.today", "weather.lookup"))
    return function(
        name,
        rng.choice(("The weather in a city.", "Looks up the weather.")),
        city=rng.choice(("string", "string:name of the city")),
    )


def dice(rng: random.Random) -> Function:
    return function(
        rng.choice(("dice.roll", "random.roll")),
        rng.choice(("Rolls a die.", "Throws a die.")),
        sides="integer",
    )


MAKERS = (calculator, clock, weather, dice)


class Toolbox:
    """The functions of one chat, and turns that need them."""

    def __init__(self, rng: random.Random) -> None:
        weights = (1.0, 0.75, 0.3, 0.2)
        made = [
            (maker, maker(rng))
            for maker, weight in zip(MAKERS, weights, strict=True)
            if rng.random() < weight
        ]
        if rng.random() < 0.15 and len(made) > 1:
            made = made[1:]
        rng.shuffle(made)
        self.by_maker = dict(made)
        self.functions = [made_function for _, made_function in made]

    def turn(self, rng: random.Random) -> Turn:
        maker = rng.choices(
            list(self.by_maker), weights=[{calculator: 5, clock: 3}.get(m, 1) for m in self.by_maker]
        )[0]
        return {calculator: calculate, clock: look_at_clock, weather: look_outside, dice: roll}[maker](
            self.by_maker[maker], rng
        )


def _call(made: Function, arguments: list[object], output: str, *after: str) -> Call:
    keys = list(made["parameters"]["properties"])  # type: ignore[index]
    return Call(str(made["name"]), dict(zip(keys, arguments, strict=True)), output, after)


SIGNS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}


def calculate(made: Function, rng: random.Random) -> Turn:
    sign = rng.choice("++-**/")
    digits = rng.choice((1, 2, 2, 3, 3, 4))
    x, y = rng.randint(10 ** (digits - 1), 10**digits - 1), rng.randint(1, 10 ** rng.randint(1, digits) - 1)
    if sign == "/" and rng.random() < 0.8:
        x = y * rng.randint(2, 50)
    value = {"+": x + y, "-": x - y, "*": x * y, "/": x / y}[sign]
    number = f"{value:.10g}"
    user, says = _question(x, sign, y, rng)
    expression = f"{x} {sign} {y}"
    if rng.random() < 0.03:
        error = rng.choice(("error: the calculator is broken", "error: no answer", "error: try again later"))
        return Turn(
            user,
            f"I am sorry, that did not work: {error[7:]}.",
            ("I can use the calculator for this.", f"I ask it for {expression}."),
            _call(made, [expression], error, "There was an error."),
        )
    output = rng.choice(
        (
            number,
            number,
            number,
            json.dumps({"result": value if "." in number else int(value)}),
            f"{expression} = {number}",
            f"result: {number}",
        )
    )
    notes = (
        "I can use the calculator for this.",
        f"I ask it for {expression}.",
        "Then I will know it exactly.",
    )
    after = (f"The calculator says {number}.",)
    return Turn(user, f"{says} {number}.", notes, _call(made, [expression], output, *after))


def _question(x: int, sign: str, y: int, rng: random.Random) -> tuple[str, str]:
    """What the user asks, and how the answer begins."""
    word = SIGNS[sign]
    says = f"{x} {word} {y} is"
    k = rng.random()
    if k < 0.82:
        form = rng.choice((
            f"What is {x} {sign} {y}?", f"What is {x} {word} {y}?", f"How much is {x} {word} {y}?", f"Please compute {x} {sign} {y}.",
            f"{x} {sign} {y} = ?", f"Can you compute {x} {word} {y}?", f"{x} {sign} {y}", f"I need to know {x} {sign} {y}.", f"What is {x}{sign}{y}?",
        ))  # fmt: skip
        return form, says
    thing = rng.choice("apples stones coins books cookies stamps eggs".split())
    forms = {
        "+": f"I have {x} {thing} and get {y} more. How many do I have?",
        "-": f"I have {x} {thing} and give away {y}. How many do I have?",
        "*": f"There are {x} boxes with {y} {thing} each. How many {thing} are there?",
        "/": f"I share {x} {thing} with {y} people. How many does each one get?",
    }
    return forms[sign], says


def look_at_clock(made: Function, rng: random.Random) -> Turn:
    hour, minute = rng.randint(0, 23), rng.randint(0, 59)
    year, month, day = rng.randint(2024, 2031), rng.randint(1, 12), rng.randint(1, 28)
    time, date = f"{hour:02}:{minute:02}", f"{year}-{month:02}-{day:02}"
    notes = ("I can look at the clock.", "It tells me the time.", "I do not have to guess.")
    if rng.random() < 0.65:
        user = rng.choice(
            (
                "What time is it?",
                "What time is it now?",
                "Can you tell me the time?",
                "How late is it?",
                "Do you know what time it is?",
                "what time is it",
                "Tell me the time, please.",
            )
        )
        output = rng.choice(
            (
                time,
                time,
                f"{time}:{rng.randint(0, 59):02}",
                f"{date} {time}",
                f"{date}T{time}:{rng.randint(0, 59):02}",
                json.dumps({"time": time}),
            )
        )
        return Turn(user, f"It is {time}.", notes, _call(made, [], output, f"The clock says {time}."))
    user = rng.choice(
        (
            "What day is it today?",
            "What is the date?",
            "What is the date today?",
            "Which day is today?",
            "Tell me the date, please.",
        )
    )
    output = rng.choice(
        (
            f"{date} {time}",
            date,
            f"{date}T{time}:{rng.randint(0, 59):02}",
            json.dumps({"date": date, "time": time}),
        )
    )
    return Turn(user, f"Today is {date}.", notes, _call(made, [], output, f"The clock says {date}."))


def look_outside(made: Function, rng: random.Random) -> Turn:
    city, sky, degrees = (
        rng.choice(CITIES),
        rng.choice("sunny rainy cloudy windy foggy snowy".split()),
        rng.randint(-9, 38),
    )
    user = rng.choice(
        (
            f"What is the weather like in {city}?",
            f"How is the weather in {city}?",
            f"Is it {rng.choice(('warm', 'cold'))} in {city}?",
            f"Tell me the weather in {city}.",
        )
    )
    output = rng.choice(
        (f"{sky}, {degrees} degrees", f"{sky}, {degrees} C", json.dumps({"sky": sky, "degrees": degrees}))
    )
    notes = ("I can look up the weather.", f"The city is {city}.")
    return Turn(
        user,
        f"It is {sky} in {city}, with {degrees} degrees.",
        notes,
        _call(made, [city], output, f"It is {sky}, {degrees} degrees."),
    )


def roll(made: Function, rng: random.Random) -> Turn:
    sides = rng.choice((6, 6, 6, 8, 10, 12, 20))
    result = rng.randint(1, sides)
    user = rng.choice(
        (f"Roll a die with {sides} sides.", f"Please roll a die with {sides} sides.")
        + (("Roll a die.", "Roll the dice.", "Throw a die, please.") if sides == 6 else ())
    )
    return Turn(
        user,
        f"It is a {result}.",
        ("I can roll a die.", f"It has {sides} sides."),
        _call(made, [sides], str(result), f"The die shows {result}."),
    )
