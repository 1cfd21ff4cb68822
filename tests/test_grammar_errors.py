"""What is no grammar is refused when it is made, by name and place; nothing hangs, floods or ends the process."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

from muser import Grammar, GrammarError, GrammarLimitError, OutOfMemoryError, ParameterError
from muser.grammar import backend

GBNF = [  # text, line, column, part of the message
    ("", 1, 1, "no rule named root"),
    ("rooot ::= \"a\"", 1, 14, "no rule named root"),
    ('root ::= "a', 1, 10, "never closed"),
    ('root ::= "a\nb"', 1, 10, "never closed"),
    ("root ::= [a", 1, 10, "never closed"),
    ('root ::= ("a" | "b"', 1, 10, "never closed"),
    ('root ::= "a")', 1, 13, "expected the end of the rule, found ')'"),
    ('root : "a"', 1, 6, "expected ::="),
    ('root ::= "a"\n\n  b ::= c', 3, 9, "no rule named c"),
    ('# so\nroot ::= x\nx ::= "a"\nx ::= "b"', 4, 1, "defined twice"),
    ('root ::= "\\q"', 1, 11, "an escape is one of"),
    ('root ::= [\\x0]', 1, 11, "an escape is one of"),
    ('root ::= "\\uD800"', 1, 11, "not a character"),
    ('root ::= "\\U00110000"', 1, 11, "not a character"),
    ("root ::= [z-a]", 1, 11, "backwards"),
    ("root ::= []", 1, 10, "no character"),
    ('root ::= "a"{3,2}', 1, 13, "at least 3 and at most 2"),
    ('root ::= "a"{}', 1, 13, "a repetition is"),
    ('root ::= "a"{x}', 1, 13, "a repetition is"),
    ('root ::= "a"{99999999999999999999}', 1, 13, "at most 1000000"),
    ("root ::= " + "(" * 65 + '"a"' + ")" * 65, 1, 74, "nested"),
    ("root ::= <|eot|>", 1, 10, "tokens in a grammar"),
    ('größe ::= "a"', 1, 3, "expected ::="),
    ('root ::= größe', 1, 12, "expected the end of the rule"),
    ("root ::= * ", 1, 10, "expected the end of the rule"),
    ('root ::= "\ud800"', 1, 11, "surrogate"),
    ("root ::= root", 1, 1, "the rule root never ends"),
    ('root ::= root "a"', 1, 1, "the rule root never ends"),
    ('root ::= "a" | b\nb ::= "x" c\nc ::= "y" b', 2, 1, "the rule b never ends"),
    ('root ::= a\na ::= b\nb ::= a', 1, 1, "never ends"),
    ('root ::= "x"+ loop{2}\nloop ::= "a" loop | "b" loop', 1, 1, "never ends"),
    ('root ::= "a' + " " * 262_144 + '"', 1, 262_145, "more than 262144"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "message"), GBNF, ids=range(len(GBNF)))
def test_gbnf_errors_have_line_and_column(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(GrammarError, match=r"line \d+, column \d+") as caught:
        Grammar.gbnf(text)
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    ("pattern", "column", "message"),
    [
        ("a(b", 2, "unclosed group"),
        ("ab/c[z-a]", 6, "invalid character class range"),
        (r"\/\/x**(", 8, "unclosed group"),
        ("a(?=b)", 2, "look-around"),
        (r"(a)\1", 4, "backreferences"),
        (r"a\b", 2, "word boundaries are not supported"),
        (r"[\]b^]x\B", 8, "word boundaries are not supported"),
        ("a$b", 2, "$ is supported only at the end"),
        ("(?m)^a$", 5, "^ is supported only at the beginning"),
        ("\\", 1, "a backslash with nothing behind it"),
        ("^a\\\\\\", 5, "a backslash with nothing behind it"),
        (r"[^\s\S]", None, "no text matches"),
        ("(?x) a b", 1, "flag x"),
        ("a\ud800", 2, "surrogate"),
    ],
)
def test_regex_errors(pattern: str, column: int | None, message: str) -> None:
    with pytest.raises(GrammarError) as caught:
        Grammar.regex(pattern)
    assert message in str(caught.value)
    assert caught.value.column == column


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"not": {"type": "string"}}, '"not"'),
        ({"type": "array", "uniqueItems": True}, '"uniqueItems"'),
        ({"type": "object", "propertyNames": {"maxLength": 3}}, '"propertyNames"'),
        ({"if": {"type": "string"}, "then": False}, '"if"'),
        ({"type": "object", "dependentRequired": {"a": ["b"]}}, '"dependentRequired"'),
        ({"type": "strin"}, "strin"),
        ({"type": "string", "pattern": "a(b"}, "unclosed group"),
        ({"type": "string", "format": "no-such"}, "no-such"),
        ({"$ref": "#/$defs/none"}, "/$defs/none"),
        ({"$ref": "https://example.org/schema"}, "https://example.org/schema"),
        (False, "schema is false"),
        ({"enum": []}, "empty"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "incompatible types"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "minLength"),
        ({"$ref": "#"}, "# never ends"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "# never ends"),
        ({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/x~1y"}], "$defs": {"x/y": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/x~1y"}}}}, "#/anyOf/1 never ends"),
        ({"x-guidance": {}}, "x-guidance"),
        ({"maximum": float("nan")}, "not JSON"),
        ({"default": {1, 2}}, "not JSON"),
        ("[1]", "a schema is an object"),
        ({"const": 1234567890123456789}, "#/const: 1234567890123456789 is beyond 2**53"),
        ('{"items": {"enum": ["a", [9007199254740993]]}}', "#/items/enum: 9007199254740993 is beyond"),
        ({"properties": {"const": {"minimum": 2**60, "maximum": 2**60}}}, "#/properties/const/minimum: 1152921504606846976"),
        ({"const": -(2**63)}, "#/const"),  # the engine would end the process
        ({"type": "integer", "exclusiveMaximum": 2**63 - 1}, "#/exclusiveMaximum"),
        ({"items": {"maxLength": 2**63}}, "#/items/maxLength must be below 4294967296"),
        ({"multipleOf": 1e17}, "#/multipleOf: 1e+17"),
        ('{"minimum": 1e400}', "#/minimum: a number with more digits"),
        ('{"const": 0.10000000000000000001}', "#/const: a number with more digits than a float64 holds; it would become 0.1"),
        ({"enum": [0.35, 0.1], "allOf": [{"const": 0.35, "multipleOf": 0.1}]}, "#/allOf/0/const: nothing in it is a multiple of 0.1"),
        ({"type": "number", "minimum": 0.31, "maximum": 0.39, "multipleOf": 0.1}, "#: no multiple of 0.1"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, '"oneOf" is supported only where no value fits two'),
        ({"pattern": r"a\b"}, r"word boundaries are not supported: a\b"),
    ],
)  # fmt: skip
def test_schema_errors_name_the_keyword(schema: object, message: str) -> None:
    with pytest.raises(GrammarError) as caught:
        Grammar.json_schema(schema)  # type: ignore[arg-type]
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "message",
    [
        "lexer precomputation failed; either increase limits.initial_lexer_fuel or disable limits.precompute_large_lexemes",
        "failed to compile JSON schema: oneOf constraints are not supported. Enable 'coerce_one_of' option to approximate it",
        "at 1(2): lexer error\n   2 | start: /\\/\n   3 |",
        "something new. Enable 'no_such' option",
    ],
)
def test_the_engines_options_are_not_in_a_message(message: str) -> None:
    for error in (backend.refused(message), backend.stuck(f"too big; {message}")):
        assert not any(word in str(error) for word in ("limits.", "Enable", "option", "lexer", "start:"))


def test_schema_text_errors_have_line_and_column() -> None:
    with pytest.raises(GrammarError) as caught:
        Grammar.json_schema('{"type":\n  "string",}')
    assert (caught.value.line, caught.value.column) == (2, 12)


def test_arguments_of_other_types() -> None:
    for make, value in [(Grammar.gbnf, 3), (Grammar.regex, b"a"), (Grammar.json_schema, [1]), (Grammar.choice, "yes"),
                        (Grammar.choice, []), (Grammar.choice, ["a", 1]), (Grammar.response_format, "json")]:  # fmt: skip
        with pytest.raises(ParameterError):
            make(value)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        Grammar.json_object(max_whitespace=-1)
    with pytest.raises(TypeError):
        Grammar()


def test_response_format_is_openais() -> None:
    schema = {"type": "integer"}
    assert Grammar.response_format({"type": "text"}) is None
    assert Grammar.response_format({"type": "json_object"}) == Grammar.json_object()
    form = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}
    assert Grammar.response_format(form) == Grammar.json_schema(schema)


def test_grammars_are_values() -> None:
    one = Grammar.choice(["yes", "no"])
    assert pickle.loads(pickle.dumps(one)) == one and hash(one) == hash(Grammar.choice(["yes", "no"]))
    assert one != Grammar.choice(["yes"])
    with pytest.raises(AttributeError):
        one._lark = ""  # type: ignore[misc]


def test_without_room_for_the_stack_there_is_an_error(monkeypatch) -> None:
    monkeypatch.setattr(backend, "STACK_BYTES", 1 << 47)  # more than there are addresses
    before = threading.stack_size()
    with pytest.raises(OutOfMemoryError):
        Grammar.regex("a")
    assert threading.stack_size() == before


@pytest.mark.parametrize("seed", range(8))
def test_damaged_grammars_are_grammars_or_errors(seed: int) -> None:
    rng = random.Random(seed)
    whole = [
        (Grammar.gbnf, 'root ::= "a\\n" b{2,3} | [^a-c\\x41]+ (b | root)? # so\nb ::= "\\u00e9" | . "x"*\n'),
        (Grammar.regex, r"^(a|[^b-d\]]{2,3})+?\d\p{L}(?i:x)\/\x{41}.*$"),
        (Grammar.json_schema, json.dumps({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}, "c": {"enum": [1, "x"]}},
                                          "required": ["a"], "$defs": {"b": {"type": ["array", "null"], "minItems": 1, "items": {"pattern": "^a+$"}}}})),
    ]  # fmt: skip
    for make, text in whole:
        make(text)  # type: ignore[operator]
        for _ in range(60):
            damaged = text
            for _ in range(rng.randint(1, 4)):
                at, length = rng.randrange(len(damaged) + 1), rng.choice([0, 0, 1, 2, 9])
                damaged = damaged[:at] + rng.choice(["", "", '"', "(", ")", "[", "]", "{", "|", "\\", "\0", "é", "9", damaged[:7]]) + damaged[at + length :]
            with suppress(GrammarError):
                make(damaged)  # type: ignore[operator]


HOSTILE = {
    "chain": lambda: Grammar.gbnf("root ::= a0\n" + "".join(f"a{i} ::= a{i + 1}\n" for i in range(4_000)) + 'a4000 ::= "x"'),
    "ring": lambda: Grammar.gbnf(
        "root ::= a0\n" + "".join(f'a{i} ::= "b" a{i + 1} | "c"\n' for i in range(2_000)) + 'a2000 ::= a0 "x" | "y"'
    ),
    "doubling": lambda: Grammar.gbnf("root ::= a0\n" + "".join(f"a{i} ::= a{i + 1} a{i + 1}\n" for i in range(60)) + 'a60 ::= "x"'),
    "repetition": lambda: Grammar.gbnf('root ::= (("a"{1000}){1000}){1000}'),
    "nullable": lambda: Grammar.gbnf('root ::= root root | "" | "a" | (("")*)*'),
    "million": lambda: Grammar.regex("((a{1000}){1000})"),
    "product": lambda: Grammar.regex("(a|b|ab)*(c|d|cd)*((a|b){1,300}c){1,300}"),
    "letters": lambda: Grammar.regex(r"(\p{L}{1,100}){1,100}"),
    "parentheses": lambda: Grammar.regex("(" * 20_000 + "a" + ")" * 20_000),
    "options": lambda: Grammar.choice([f"option {i}" for i in range(6_000)]),
    "references": lambda: Grammar.json_schema(
        {"$ref": "#/$defs/0", "$defs": {**{str(i): {"items": {"$ref": f"#/$defs/{i + 1}"}} for i in range(3_000)}, "3000": {}}}
    ),
    "all of": lambda: Grammar.json_schema(
        {"$ref": "#/$defs/0", "$defs": {**{str(i): {"allOf": [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(40)}, "40": {}}}
    ),
    "enum": lambda: Grammar.json_schema({"enum": [f"value {i}" for i in range(6_000)]}),
    "properties": lambda: Grammar.json_schema({"properties": {f"p{i}": {} for i in range(9_000)}}),
    "optional": lambda: Grammar.json_schema({"items": {"properties": {str(i): {"properties": {str(j): {} for j in range(400)}} for i in range(15)}}}),
    "nested": lambda: Grammar.json_schema('{"items":' * 20_000 + "{}" + "}" * 20_000),
    "length": lambda: Grammar.json_schema({"type": "string", "minLength": 10**6}),
    "items": lambda: Grammar.json_schema({"type": "array", "minItems": 10**6, "items": {"type": "null"}}),
    "multiple": lambda: Grammar.json_schema({"type": "integer", "multipleOf": 7919 * 104729}),
}


@pytest.mark.parametrize("part", range(4))
def test_hostile_grammars_end_in_bounded_time(part: int) -> None:
    """In a process of their own: an overflown stack would end it. Masks are computed in a thread of 512 kB, as macOS
    gives them."""
    names = list(HOSTILE)[part::4]
    code = f"""
import sys; sys.path[:0] = {sys.path!r}
import test_grammar_errors
for name in {names}: test_grammar_errors.run_hostile(name)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for line in done.stdout.splitlines():
        name, seconds, megabytes = json.loads(line)
        assert seconds < 30 and megabytes < 400, name
    assert len(done.stdout.splitlines()) == len(names)


def run_hostile(name: str) -> None:
    import resource

    def megabytes() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << (20 if sys.platform == "darwin" else 10))

    def steps() -> None:
        vocabulary = backend.bytes_vocabulary()
        matcher = backend.compile_grammar(grammar._lark, vocabulary).copy()
        mask = np.zeros(vocabulary.words, np.uint32)
        for _ in range(30):
            matcher.mask_into(mask)
            token = next((t for t in b"xabc{[\"1n}]" if mask[t // 32] >> t % 32 & 1), None)
            if matcher.error or token is None:
                break
            assert matcher.consume(token)

    before, start = megabytes(), time.perf_counter()
    try:
        grammar = HOSTILE[name]()
    except (GrammarLimitError, GrammarError):
        pass
    else:
        threading.stack_size(512 * 1024)
        thread = threading.Thread(target=steps)
        thread.start()
        thread.join()
    print(json.dumps([name, time.perf_counter() - start, megabytes() - before]))
