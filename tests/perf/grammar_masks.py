"""How long a grammar's masks take on a model's vocabulary, how long the first grammar waits for it, and how long it makes an
event loop of the same process wait at most.

    python -m tests.perf.grammar_masks MODEL.gguf...

For each grammar a text of it is tokenized and followed token by token; times are microseconds of one thread.
"""

from __future__ import annotations

import asyncio
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


async def ready(tokenizer: Tokenizer) -> tuple[Runtime, float, float]:
    """Also how long it took, and by how much the latest of the event loop's beats was late, in seconds."""
    late = [0.0]

    async def beat() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            late.append(time.perf_counter() - before - 0.001)

    beating = asyncio.ensure_future(beat())
    await asyncio.sleep(0.1)
    late[:] = [0.0]
    start = time.perf_counter()
    runtime = await asyncio.to_thread(Runtime, tokenizer, tokenizer.vocab_size, spare_core=False)
    seconds = time.perf_counter() - start
    await asyncio.sleep(0.05)
    beating.cancel()
    return runtime, seconds, max(late)


def main() -> None:
    for path in sys.argv[1:]:
        tokenizer = Tokenizer(FileMetadata(GgufFile(path)))
        runtime, seconds, late = asyncio.run(ready(tokenizer))
        print(f"{path}: {tokenizer.vocab_size} tokens, ready for grammars in {seconds:.2f} s, in which the event loop "
              f"waits {late * 1e3:.1f} ms at most")  # fmt: skip
        for name, (grammar, text) in CASES.items():
            start = time.perf_counter()
            constraint = runtime.constraint(grammar, tokenizer.stop_ids)
            compiled = time.perf_counter() - start
            for again in ("", " again"):
                start = time.perf_counter()
                constraint = runtime.constraint(grammar, tokenizer.stop_ids)
                copied = time.perf_counter() - start
                times, consumed = [], 0.0
                for token in tokenizer.encode(text, add_bos=False):
                    before = constraint.mask_seconds
                    constraint.mask()
                    times.append((constraint.mask_seconds - before) * 1e6)
                    start = time.perf_counter()
                    constraint.consume(token)
                    consumed += time.perf_counter() - start
                assert constraint.complete
                middle, high, most = np.percentile(times, [50, 99, 100])
                print(f"  {name + again:19} compiled in {compiled * 1e3:.1f} ms, copied in {copied * 1e6:.0f} µs; {len(times)} masks: "
                      f"median {middle:.0f} µs, 99 % {high:.0f} µs, longest {most:.0f} µs, all {sum(times):.0f} µs; "
                      f"a token consumed in {consumed / len(times) * 1e6:.1f} µs")  # fmt: skip


main()
