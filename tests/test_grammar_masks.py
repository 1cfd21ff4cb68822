"""Masks of random grammars against their definition, over a small vocabulary with everything unpleasant in it."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from grammar_oracle import Oracle, nested_grammar, random_grammar, to_gbnf, to_regex

import muser
from muser.grammar.runtime import Runtime

E, SUN = "é".encode(), "日".encode()
PIECES = [
    b"a", b"b", b"\n", b"]", E, SUN, E[:1], E[1:], SUN[:1], SUN[1:2], SUN[1:], SUN[2:], b"a", b"ab", b"aa", b"abb",
    b"b]", b"a" + E, E + b"a", b"a" + E[:1], E[1:] + b"b", E[1:] + SUN[:2], SUN + SUN, b"]\n", b"z", b"", b"\xff", b"\xffa",
    b"<eos>", b"<ctl>", b"a<eos>", b"aaaaaaaa",
]  # fmt: skip
EOS, CONTROL = PIECES.index(b"<eos>"), PIECES.index(b"<ctl>")


class ToyTokenizer:
    vocab_size = len(PIECES)
    control_ids = frozenset({EOS, CONTROL})

    def pieces(self) -> list[bytes]:
        return list(PIECES)


@pytest.fixture(scope="module", params=[True, False], ids=["threads", "no threads"])
def runtime(request) -> Runtime:
    return Runtime(ToyTokenizer(), len(PIECES), spare_core=request.param)  # type: ignore[arg-type]


def allowed(mask: np.ndarray) -> set[int]:
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


def walk(runtime: Runtime, grammar: muser.Grammar, oracle: Oracle, rng: random.Random, steps: int) -> bytes | None:
    """Compares every mask on the way; returns the text if it was finished."""
    constraint = runtime.constraint(grammar, {EOS})
    text = b""
    for _ in range(steps):
        complete, _ = oracle.of(text)
        expected = {t for t, piece in enumerate(PIECES) if piece and t not in (EOS, CONTROL) and oracle.of(text + piece)[1]}
        if rng.random() < 0.5 and (expected or complete):
            constraint.begin()
        if not expected and not complete:
            with pytest.raises(muser.GrammarDeadEndError):
                constraint.mask()
            return None
        assert allowed(constraint.mask()) == expected | ({EOS} if complete else set()), text
        assert constraint.complete == complete and constraint.only_ends == (complete and not expected)
        if complete and (not expected or rng.random() < 0.2):
            return text
        token = rng.choice(sorted(expected))
        if rng.random() < 0.3:  # there and back again
            fork = constraint.fork()
            fork.consume(token)
            constraint.consume(token)
            constraint.rollback(1)
            assert allowed(constraint.mask()) - {EOS} == expected
            assert fork.tokens == [*constraint.tokens, token]
        refused = next((t for t in range(len(PIECES)) if t not in expected and t != EOS), None)
        if refused is not None:
            with pytest.raises(muser.ParameterError):
                constraint.consume(refused)
            assert constraint.accepts([token, refused]) <= 2
        constraint.consume(token)
        text += PIECES[token]
    copy = runtime.constraint(grammar, {EOS})  # as a session file restores it
    copy.replay(constraint.tokens)
    try:
        expected_mask = allowed(constraint.mask())
    except muser.GrammarDeadEndError:
        return None
    assert allowed(copy.mask()) == expected_mask
    return None


@pytest.mark.parametrize("seed", range(40))
def test_masks_of_random_gbnf_are_exact(runtime: Runtime, seed: int) -> None:
    rng = random.Random(seed)
    rules = nested_grammar(rng) if seed % 2 else random_grammar(rng, recursive=seed % 3 > 0)
    grammar = muser.Grammar.gbnf(to_gbnf(rules, rng))
    oracle = Oracle(rules)
    for _ in range(3):
        text = walk(runtime, grammar, oracle, rng, 8)
        assert text is None or oracle.of(text)[0]


@pytest.mark.parametrize("seed", range(15))
def test_masks_of_random_regular_expressions_are_exact(runtime: Runtime, seed: int) -> None:
    rng = random.Random(1000 + seed)
    rules = random_grammar(rng, recursive=False)
    pattern = to_regex(rules["root"], rules)
    for _ in range(3):
        text = walk(runtime, muser.Grammar.regex(pattern), Oracle(rules), rng, 8)
        if text is not None:
            python = re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: re.escape(chr(int(m[1], 16))), pattern)
            assert re.fullmatch(python, text.decode())
