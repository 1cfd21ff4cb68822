"""How long a grammar's masks take on a model's vocabulary, and how long the first grammar waits for it.

    python -m tests.perf.grammar_masks MODEL.gguf...

For each grammar a text of it is tokenized and followed token by token; times are microseconds of one thread.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from muser import Grammar
from muser._muser import GgufFile
from muser.grammar.runtime import Runtime
from muser.text import Tokenizer
from muser.text.metadata import FileMetadata

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "child": {"$ref": "#"},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
JSON_GBNF = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array  ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
"""
DOCUMENT = '{"name": "Ada Lovelace, first of all programmers", "age": 36, "tags": ["a", "first thing", "über"], "child": {"name": "x\\n", "age": 1}}'
CASES = {
    "JSON schema": (Grammar.json_schema(PERSON), DOCUMENT),
    "JSON object": (Grammar.json_object(), DOCUMENT),
    "JSON in GBNF": (Grammar.gbnf(JSON_GBNF), DOCUMENT),
    "regex": (Grammar.regex("[a-z]+( [a-z]+)*[.][0-9]{3}"), "hello there my friend is at home.123"),
}


def main() -> None:
    for path in sys.argv[1:]:
        tokenizer = Tokenizer(FileMetadata(GgufFile(path)))
        start = time.perf_counter()
        runtime = Runtime(tokenizer, tokenizer.vocab_size)
        print(f"{path}: {tokenizer.vocab_size} tokens, ready for grammars in {time.perf_counter() - start:.2f} s")
        for name, (grammar, text) in CASES.items():
            start = time.perf_counter()
            constraint = runtime.constraint(grammar, tokenizer.stop_ids)
            compiled = time.perf_counter() - start
            times = []
            for token in tokenizer.encode(text, add_bos=False):
                before = constraint.mask_seconds
                constraint.mask()
                times.append((constraint.mask_seconds - before) * 1e6)
                constraint.consume(token)
            assert constraint.complete
            middle, high, most = np.percentile(times, [50, 99, 100])
            print(f"  {name:13} compiled in {compiled * 1e3:.1f} ms; {len(times)} masks: median {middle:.0f} µs, "
                  f"99 % {high:.0f} µs, longest {most:.0f} µs")  # fmt: skip


main()
