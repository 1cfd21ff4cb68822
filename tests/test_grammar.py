"""Generation under a grammar: on the tiny model and, where moments matter, on the fake engine."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fake_engine import EOS, EOT, FakeEngine, FakeTokenizer
from grammar_oracle import Oracle, random_grammar, to_gbnf

import muser
from muser import Grammar
from muser.grammar.constraint import Constraint

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "ü", 3, None]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
GRAMMARS = [
    Grammar.json_schema(PERSON),
    Grammar.regex(r"^[a-z]{2,5}( [a-z]{2,5}){1,4}[.!?]$"),
    Grammar.choice(["yes", "no", "perhaps — só"]),
    Grammar.gbnf('root ::= sum ["=?"]\nsum ::= term | sum "+" term\nterm ::= [0-9]{1,3} | "(" sum ")"'),
]


@pytest.fixture(scope="module")
def model():
    with muser.Model.tiny(context=256) as tiny:
        yield tiny


def fake(**kwargs) -> muser.Model:
    """Of the fake engine, with every token possible."""
    return muser.Model(FakeEngine(spoil=possible, **kwargs), FakeTokenizer)


def possible(logits: np.ndarray, tokens: list[int]) -> None:
    best = logits.max()
    logits[np.isneginf(logits)] = best - 1.0


def check_person(text: str) -> None:
    person = json.loads(text)
    assert list(person) == ["name", "age", "tags"]
    assert isinstance(person["name"], str) and len(person["name"]) <= 12
    assert type(person["age"]) is int and 0 <= person["age"] <= 130
    assert 1 <= len(person["tags"]) <= 3 and all(tag in ("a", "b", "ü", 3, None) for tag in person["tags"])


@pytest.mark.parametrize("temperature", [0.0, 1.0, 3.0])
def test_what_is_finished_is_of_the_grammar(model, temperature: float) -> None:
    for seed in range(3):
        done = model.generate("It was", grammar=GRAMMARS[0], temperature=temperature, seed=seed, max_tokens=150)
        assert done.finish_reason == "eos" and done.end_token in model.tokenizer.stop_ids
        check_person(done.text)
        done = model.generate("It was", grammar=GRAMMARS[1], temperature=temperature, seed=seed)
        assert done.finish_reason == "eos" and re.fullmatch(r"[a-z]{2,5}( [a-z]{2,5}){1,4}[.!?]", done.text)
        done = model.generate("It was", grammar=GRAMMARS[2], temperature=temperature, seed=seed)
        assert done.text in ("yes", "no", "perhaps — só")
        assert done.timings.grammar_masks == done.usage.completion_tokens + 1
        assert done.timings.grammar_mask_seconds > 0


@pytest.mark.parametrize("seed", range(12))
def test_random_grammars_at_high_temperature(seed: int) -> None:
    """A token a byte, random letters of the fake engine: every text is one of the grammar, or was cut off."""
    rng = random.Random(seed)
    rules = random_grammar(rng, recursive=True)
    grammar = Grammar.gbnf(to_gbnf(rules, rng))
    oracle = Oracle(rules)
    with fake() as model:
        for _ in range(4):
            done = model.generate("x", grammar=grammar, temperature=5.0, max_tokens=20)
            whole, begun = oracle.of(bytes(done.tokens))
            assert begun if done.finish_reason == "length" else whole
            assert done.finish_reason == "length" or done.end_token in (EOS, EOT)


def random_schema(rng: random.Random, depth: int = 2) -> dict:
    kind = rng.choice(["string", "integer", "boolean", "null", "enum", "object", "array"] if depth else ["integer", "boolean", "enum"])
    if kind == "enum":
        return {"enum": rng.sample([1, "x", "é\n", None, True, [1], {"k": 2}], 3)}
    if kind == "object":
        names = rng.sample(["a", "b", "c c", "ü"], rng.randint(1, 3))
        return {"type": "object", "properties": {n: random_schema(rng, depth - 1) for n in names},
                "required": rng.sample(names, rng.randint(0, len(names))), "additionalProperties": False}  # fmt: skip
    if kind == "array":
        low = rng.randrange(3)
        return {"type": "array", "items": random_schema(rng, depth - 1), "minItems": low, "maxItems": low + rng.randrange(3)}
    if kind == "string":
        return {"type": "string", "minLength": 1, "maxLength": 4}
    return {"type": kind, **({"minimum": -5, "maximum": 12} if kind == "integer" else {})}


def random_value(rng: random.Random, schema: dict):
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema["type"]
    if kind == "object":
        named = schema["properties"].items()
        return {n: random_value(rng, part) for n, part in named if n in schema["required"] or rng.random() < 0.5}
    if kind == "array":
        return [random_value(rng, schema["items"]) for _ in range(rng.randint(schema["minItems"], schema["maxItems"]))]
    if kind == "string":
        return "".join(rng.choice('aé日\\"\n😀\0') for _ in range(rng.randint(1, 4)))
    return {"integer": rng.randint(-5, 12), "boolean": rng.random() < 0.5, "null": None}[kind]


@pytest.mark.parametrize("seed", range(25))
def test_every_value_of_a_schema_can_be_written(model, seed: int) -> None:
    """In any pieces, compact, spaced or over many lines; escapes only where JSON needs them."""
    rng = random.Random(seed)
    schema = random_schema(rng, 3)
    runtime, tokenizer = model._core.grammars, model.tokenizer
    of_bytes = {piece: token for token, piece in enumerate(tokenizer.pieces()) if piece and not tokenizer.is_control(token)}
    for form in ({"separators": (",", ":")}, {}, {"indent": 2}):
        data = json.dumps(random_value(rng, schema), ensure_ascii=False, **form).encode()
        constraint = runtime.constraint(Grammar.json_schema(schema, max_whitespace=20), ())
        while data:
            length = rng.choice([n for n in range(1, min(len(data), 8) + 1) if data[:n] in of_bytes])
            constraint.consume(of_bytes[data[:length]])
            data = data[length:]
        assert constraint.complete


def conforms(value, schema: dict) -> bool:
    if "enum" in schema:
        return any(type(value) is type(option) and value == option for option in schema["enum"])
    kind = schema["type"]
    if kind == "object":
        properties = schema["properties"]
        return (isinstance(value, dict) and set(schema["required"]) <= set(value) <= set(properties)
                and all(conforms(part, properties[name]) for name, part in value.items()))  # fmt: skip
    if kind == "array":
        return (isinstance(value, list) and schema["minItems"] <= len(value) <= schema["maxItems"]
                and all(conforms(part, schema["items"]) for part in value))  # fmt: skip
    if kind == "string":
        return isinstance(value, str) and 1 <= len(value) <= 4
    if kind == "integer":
        return type(value) is int and -5 <= value <= 12
    return value is None if kind == "null" else isinstance(value, bool)


@pytest.mark.parametrize("seed", range(12))
def test_random_schemas_at_high_temperature(model, seed: int) -> None:
    rng = random.Random(seed)
    schema = random_schema(rng)
    grammar = Grammar.json_schema(schema, max_whitespace=rng.choice([0, 1, 20]))
    for run in range(3):
        done = model.generate("So", grammar=grammar, temperature=4.0, seed=run, max_tokens=220)
        if done.finish_reason == "eos":
            assert conforms(json.loads(done.text), schema), done.text
        else:
            assert done.finish_reason == "length"


def test_four_grammars_at_once_equal_solo_runs_and_neighbours_notice_nothing(model) -> None:
    jobs = [{"grammar": g, "seed": i, "temperature": 1.5, "max_tokens": 40} for i, g in enumerate([*GRAMMARS, None, None, *GRAMMARS, None])]
    alone = [model.generate("Once", **job).tokens for job in jobs]
    with ThreadPoolExecutor(len(jobs)) as pool:
        together = list(pool.map(lambda job: model.generate("Once", **job).tokens, jobs))
    assert together == alone

    async def coroutines() -> list[tuple[int, ...]]:
        return [done.tokens for done in await asyncio.gather(*(model.agenerate("Once", **job) for job in jobs))]

    assert asyncio.run(coroutines()) == alone


def test_max_tokens_inside_a_structure_is_length(model) -> None:
    done = model.generate("Once", grammar=GRAMMARS[0], max_tokens=3)
    assert (done.finish_reason, len(done.tokens)) == ("length", 3)
    with fake(context=8) as small:  # the context, too
        done = small.generate("abc", grammar=Grammar.regex("[a-z]{50}"))
        assert (done.finish_reason, done.context_full) == ("length", True)


def test_white_space_is_bounded() -> None:
    """A model that writes blanks whenever it may still comes to an end (pains 40)."""
    with fake(next_token=lambda tokens: ord(" ")) as model:
        done = model.generate("x", grammar=Grammar.json_schema(PERSON), temperature=0.0, max_tokens=400)
    assert done.finish_reason == "eos"
    assert len(json.loads(done.text)["name"]) == 12  # inside a string a blank is text
    assert done.text.count(" ") <= 12 + 20


@pytest.mark.parametrize(
    ("schema", "texts", "others"),
    [
        ({"const": 9007199254740992}, ["9007199254740992"], ["9007199254740993"]),
        ({"type": ["integer", "null"], "maximum": 2**63 - 1}, ["null", str(2**63 - 1)], [str(2**63)]),
        ({"enum": [19.99, 19.995, "a"], "multipleOf": 0.01}, ["19.99", '"a"'], ["19.995"]),
        ({"const": 4.35, "multipleOf": 0.01}, ["4.35"], ["4.36"]),
        ({"type": "number", "minimum": 0.3, "maximum": 0.3, "multipleOf": 0.1}, ["0.3"], ["0.4"]),
        ({"type": "number", "minimum": 0.25, "exclusiveMaximum": 0.75, "multipleOf": 0.05}, ["0.25", "0.7"], ["0.75", "0.26"]),
        ({"type": "integer", "exclusiveMinimum": 3, "maximum": 7, "multipleOf": 1.5}, ["6"], ["3", "4"]),
        ({"properties": {"const": {"enum": [0.3], "multipleOf": 0.1}}, "required": ["const"]}, ['{"const": 0.3}'], ["{}"]),
    ],
)
def test_numbers_of_a_schema_are_exact(model, schema: dict, texts: list[str], others: list[str]) -> None:
    for text in texts + others:
        constraint = model.constraint(Grammar.json_schema(schema))
        ids = model.tokenize(text, add_bos=False)
        assert (constraint.accepts(ids) == len(ids) and (constraint.replay(ids) or constraint.complete)) == (text in texts), text


def test_a_choice_of_nothing_but_the_empty_text(model) -> None:
    done = model.generate("x", grammar=Grammar.choice([""]))
    assert (done.text, done.finish_reason) == ("", "eos")


def test_the_end_token_rule() -> None:
    letters = lambda tokens: ord("a")
    ends = lambda tokens: EOT
    with fake(next_token=ends) as model:  # an end token only where the grammar can end, then at once
        done = model.generate("x", grammar=Grammar.regex("a{3,5}"), temperature=0.0)
        assert (done.text, done.finish_reason, done.end_token) == ("aaa", "eos", EOT)
        done = model.generate("x", grammar=Grammar.regex("a{3,5}"), temperature=0.0, min_tokens=4)
        assert (done.text, done.finish_reason, done.end_token) == ("aaaa", "eos", EOT)
    with fake(next_token=letters) as model:  # and forced where nothing else is allowed
        done = model.generate("x", grammar=Grammar.regex("a{3,5}"), temperature=0.0)
        assert (done.text, done.finish_reason) == ("aaaaa", "eos")
        done = model.generate("x", grammar=Grammar.regex("a{3,5}"), temperature=0.0, min_tokens=20)
        assert (done.text, done.finish_reason) == ("aaaaa", "eos")
        done = model.generate("x", grammar=Grammar.regex("a{3,5}"), temperature=0.0, ignore_eos=True)
        assert (done.text, done.finish_reason, done.end_token) == ("aaaaa", "eos", None)
        done = model.generate("x", grammar=Grammar.regex("a{3,5}"), temperature=0.0, ignore_eos=True, stop_token_ids=[259])
        assert (done.text, done.finish_reason, done.end_token) == ("aaaaa", "stop", 259)
    control = lambda tokens: 259
    with fake(next_token=control) as model:  # other control tokens never
        assert model.generate("x", grammar=Grammar.regex(".{4}"), temperature=0.0).end_token in (EOS, EOT)


class WithoutB(FakeTokenizer):
    def pieces(self) -> list[bytes]:
        return [b"" if token == ord("b") else piece for token, piece in enumerate(super().pieces())]


def test_a_dead_end_fails_its_own_request_only() -> None:
    with muser.Model(FakeEngine(delay=0.001, spoil=possible), WithoutB) as model:
        solo = model.generate("y", seed=3, max_tokens=30).tokens
        stop = threading.Event()

        def neighbour() -> list[tuple[int, ...]]:
            runs = []
            while not stop.is_set() or not runs:
                runs.append(model.generate("y", seed=3, max_tokens=30).tokens)
            return runs

        with ThreadPoolExecutor(3) as pool:
            neighbours = [pool.submit(neighbour) for _ in range(3)]
            try:
                for grammar in (Grammar.gbnf('root ::= "aab" "c"'), Grammar.regex("aab|aa(bc|b)")):
                    stream = model.stream("x", grammar=grammar)
                    assert "".join(chunk.text for _, chunk in zip(range(2), stream)) == "aa"
                    with pytest.raises(muser.GrammarDeadEndError):
                        next(stream)
            finally:
                stop.set()
            assert all(run == solo for runs in neighbours for run in runs.result())
        assert model.slots.stats().free == 4 and model.health().ok


def test_a_grammar_that_takes_too_many_steps_fails_its_own_request_only(model) -> None:
    many = [f"a{i}" for i in range(1500)]
    rules = "".join(f'{name} ::= [a-z ]* "{name}" root\n' for name in many)
    wide = Grammar.gbnf(f'root ::= "." | "zq" ({" | ".join(many)})\n{rules}')
    constraint = model._core.grammars.constraint(wide, ())
    with pytest.raises(muser.GrammarLimitError):
        constraint.replay(model.tokenize("zq", add_bos=False))
        constraint.mask()
    with pytest.raises(muser.GrammarLimitError):
        for seed in range(20):
            model.generate("Once", grammar=wide, temperature=30.0, seed=seed)
    assert model.slots.stats().free == 4 and model.generate("Once", max_tokens=2, ignore_eos=True).tokens


def test_a_cancelled_generation_leaves_nothing() -> None:
    with fake(delay=0.002) as model:
        for rounds in range(20):
            stream = model.stream("x", grammar=Grammar.regex("[a-z]*"), seed=rounds)
            for _, _ in zip(range(rounds % 4), stream):
                pass
            stream.close()
        assert model.slots.stats().free == 4


def test_masks_are_counted(model) -> None:
    before = model.stats()
    done = model.generate("Once", grammar=GRAMMARS[2])
    after = model.stats()
    assert after["grammar_masks"] - before["grammar_masks"] == done.timings.grammar_masks
    assert after["grammar_mask_seconds"] > before["grammar_mask_seconds"]


def test_a_constraint_can_be_armed_in_the_middle(model) -> None:
    """As for a tool call: free text, then a grammar, then free text."""
    stream = model.stream("Once", seed=1, max_tokens=60, ignore_eos=True)
    generation = stream._generation
    text = "".join(chunk.text for _, chunk in zip(range(5), stream))
    constraint = model._core.grammars.constraint(Grammar.json_schema({"type": "array", "items": {"type": "boolean"}, "maxItems": 3}), ())
    generation.guide.constraint = constraint
    armed = ""
    while not constraint.only_ends:
        armed += next(stream).text
        if not constraint.tokens and not armed:
            continue
        probe = constraint.fork()
        probe.consume(generation._transcript.tokens[-1])
        if probe.only_ends:
            break
    generation.guide.constraint = None
    rest = "".join(chunk.text for chunk in stream)
    assert json.loads(armed) is not None and rest and text
    assert stream.completion is not None and stream.completion.finish_reason == "length"


def test_a_session_that_is_driven_by_hand(model) -> None:
    """The same tokens as generate; half of the way in one constraint, half in one that was restored from the tokens."""
    expected = model.generate("Once", grammar=GRAMMARS[3], seed=4)
    sampler = muser.Sampler(seed=4, tokenizer=model.tokenizer)
    ids = model.tokenize("Once")
    sampler.accept(ids)
    with model.session() as session:
        session.prefill(ids)
        constraint = model.constraint(GRAMMARS[3])
        tokens = []
        while (token := session.sample(sampler, constraint.mask())) not in model.tokenizer.stop_ids:
            tokens.append(token)
            constraint.consume(token)
            restored = model.constraint(GRAMMARS[3])
            restored.replay(tokens)
            constraint = restored
            session.decode(token)
    assert tuple(tokens) == expected.tokens
    for bad in ({"grammar": "a"}, {"grammar": GRAMMARS[0], "ends": [10**9]}, {"grammar": GRAMMARS[0], "ends": 3}):
        with pytest.raises(muser.ParameterError):
            model.constraint(**bad)


def test_equal_grammars_are_compiled_once(model, monkeypatch) -> None:
    from muser.grammar import backend

    calls = []
    compile_grammar = backend.compile_grammar
    monkeypatch.setattr(backend, "compile_grammar", lambda *args: calls.append(args) or compile_grammar(*args))
    runtime = model._core.grammars
    made = [runtime.constraint(Grammar.regex("q[a-c]{7}"), ()) for _ in range(3)]
    assert sum(args[1] is runtime._engine for args in calls) == 1
    made[0].consume(next(iter(np.flatnonzero(np.unpackbits(made[0].mask().view(np.uint8), bitorder="little")))))
    assert isinstance(made[1], Constraint) and not made[1].tokens


def test_the_engine_is_not_imported_with_the_package() -> None:
    import subprocess
    import sys

    code = "import muser, sys; assert 'llguidance' not in sys.modules; muser.Grammar.regex('a'); assert 'llguidance' in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_several_answers_to_one_prompt_have_a_grammar_each(model) -> None:
    answers = model.generate_n("Once", 3, grammar=GRAMMARS[1], seed=5)
    for index, answer in enumerate(answers):
        assert re.fullmatch(r"[a-z]{2,5}( [a-z]{2,5}){1,4}[.!?]", answer.text)
        assert answer.tokens == model.generate("Once", grammar=GRAMMARS[1], seed=answer.seed).tokens, index
