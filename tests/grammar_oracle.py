"""Grammars by definition, slowly: random ones, how GBNF and regular expressions spell them, and which byte strings
they have. Nothing here knows the grammar engine or the parser in the package.

A grammar is ``{rule: expression}``; an expression is ``("set", characters)``, ``("text", string)``, ``("ref",
rule)``, ``("seq", [..])``, ``("or", [..])`` or ``("rep", expression, low, high or None)``.
"""

from __future__ import annotations

import random

ALPHABET = "ab\n]é日"


def random_grammar(rng: random.Random, *, recursive: bool) -> dict:
    """Every rule has a finite text: one alternative of a recursive rule refers to later rules only."""
    names = ["root", "r1", "r-2"]
    rules = {}
    for index, name in enumerate(names):
        later = names[index + 1 :]
        others = [expression(rng, names if recursive else later, 2) for _ in range(rng.randrange(3))]
        rules[name] = ("or", [expression(rng, later, 2), *others])
    return rules


def nested_grammar(rng: random.Random) -> dict:
    """Words between separators and parentheses, which now and then may be taken for one another."""
    words = ("rep", ("set", "".join(rng.sample("aé日", 2))), rng.choice([0, 1]), rng.choice([None, 2]))
    word = ("seq", [("text", rng.choice(["a", "ab", "é", "日é", "aa"])), ("rep", ("set", rng.choice(["a", "ab", "é", "日"])), 0, rng.choice([None, 1, 2]))])  # fmt: skip
    separator = ("text", rng.choice(["\n", "b", "]", "b\n"]))
    bracket = ("text", rng.choice(["]", "b", "\n\n"]))
    inside = ("seq", [bracket, ("ref", "root"), bracket])
    if rng.random() < 0.5:
        root = ("or", [("ref", "r1"), ("seq", [bracket, ("ref", "root"), separator, ("ref", "r1")])])
    else:
        root = ("seq", [("ref", "r1"), ("rep", ("seq", [separator, ("or", [("ref", "r1"), inside])]), 0, None)])
    item = ("or", [words, ("ref", "r-2")] if rng.random() < 0.5 else [word, ("seq", [word, separator])])
    return {"root": root, "r1": item, "r-2": word}


def expression(rng: random.Random, names: list[str], depth: int):
    kind = rng.choice(["set", "text", "ref", "seq", "or", "rep"] if depth else ["set", "text", "ref"])
    if kind == "ref" and names:
        return ("ref", rng.choice(names))
    if kind in ("seq", "or"):
        return (kind, [expression(rng, names, depth - 1) for _ in range(rng.randint(1, 3))])
    if kind == "rep":
        low = rng.choice([0, 0, 1, 2])
        return ("rep", expression(rng, names, depth - 1), low, rng.choice([None, low, low + 1]) if low else rng.choice([None, 1, 2]))
    if kind == "text":
        return ("text", "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(4))))
    return ("set", "".join(sorted(set(rng.choices(ALPHABET, k=rng.randint(1, 3))))))


def to_gbnf(grammar: dict, rng: random.Random) -> str:
    def escaped(character: str) -> str:
        forms = [f"\\u{ord(character):04x}", f"\\U{ord(character):08X}"]
        forms.append({"\n": "\\n", "]": "\\]"}.get(character, character))
        return rng.choice(forms)

    def spell(node) -> str:
        kind = node[0]
        if kind == "set":
            return "[" + "".join(map(escaped, node[1])) + "]"
        if kind == "text":
            return '"' + "".join(map(escaped, node[1])) + '"'
        if kind == "ref":
            return node[1]
        if kind == "rep":
            return f"({spell(node[1])}){_times(node)}"
        return "(" + (" " if kind == "seq" else " | ").join(map(spell, node[1])) + rng.choice(["", "\n", " # so\n"]) + ")"

    return "\n".join(f"{name} ::= {spell(body)}" for name, body in grammar.items())


def to_regex(node, grammar: dict) -> str:
    """Of a grammar without recursion."""
    kind = node[0]
    if kind == "ref":
        return to_regex(grammar[node[1]], grammar)
    if kind == "set":
        return "[" + "".join(f"\\x{{{ord(c):x}}}" for c in node[1]) + "]"
    if kind == "text":
        return "".join(f"\\x{{{ord(c):x}}}" for c in node[1])
    if kind == "rep":
        return f"({to_regex(node[1], grammar)}){_times(node)}"
    return "(" + ("" if kind == "seq" else "|").join(to_regex(part, grammar) for part in node[1]) + ")"


def _times(node) -> str:
    _, _, low, high = node
    if high is None:
        return {0: "*", 1: "+"}.get(low, f"{{{low},}}")
    return "?" if (low, high) == (0, 1) else f"{{{low}}}" if low == high else f"{{{low},{high}}}"


class Oracle:
    """``of(data)``: (whether the bytes are a text of the grammar, whether some text begins with them)."""

    def __init__(self, grammar: dict) -> None:
        self.grammar = grammar
        self.known: dict[bytes, tuple[bool, bool]] = {}

    def of(self, data: bytes) -> tuple[bool, bool]:
        if data not in self.known:
            self.known[data] = self._compute(data)
        return self.known[data]

    def _compute(self, data: bytes) -> tuple[bool, bool]:
        # (rule, start) -> (ends, whether it can run past the end of the data), by iteration to the least fixed point
        table: dict = {}
        while True:
            before = {key: (set(ends), past) for key, (ends, past) in table.items()}
            wanted = {("root", 0), *table}
            for name, start in wanted:
                table[name, start] = self._match(self.grammar[name], data, start, table)
            if {key: (set(ends), past) for key, (ends, past) in table.items()} == before:
                break
        ends, past = table["root", 0]
        return len(data) in ends, past or len(data) in ends

    def _match(self, node, data: bytes, start: int, table: dict) -> tuple[set, bool]:
        kind = node[0]
        if kind == "ref":
            return table.setdefault((node[1], start), (set(), False))
        if kind in ("set", "text"):
            ends, past = set(), False
            for option in node[1] if kind == "set" else [node[1]]:
                piece = option.encode()
                if data.startswith(piece, start):
                    ends.add(start + len(piece))
                elif piece.startswith(data[start:]):
                    past = True
            return ends, past
        if kind == "or":
            found = [self._match(option, data, start, table) for option in node[1]]
            return set().union(*(ends for ends, _ in found)), any(past for _, past in found)
        if kind == "seq":
            ends, past = {start}, False
            for item in node[1]:
                ends, beyond = self._all(item, data, ends, table)
                past |= beyond
            return ends, past
        _, item, low, high = node
        reached, past = {start}, False
        for _ in range(low):
            reached, beyond = self._all(item, data, reached, table)
            past |= beyond
        ends = set(reached)
        for _ in range(len(data) + 1 if high is None else high - low):
            reached, beyond = self._all(item, data, reached, table)
            past |= beyond
            if reached <= ends:
                break
            ends |= reached
        return ends, past

    def _all(self, node, data: bytes, starts: set, table: dict) -> tuple[set, bool]:
        found = [self._match(node, data, start, table) for start in starts]
        return set().union(*(ends for ends, _ in found)), any(past for _, past in found)
