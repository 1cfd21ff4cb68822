"""Every op of the device interface as a small program: a few ops that bring its result to the residual or the logits.
Shapes have tails: rows and columns that are no multiple of anything a kernel likes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from muser.selftest.blocks import TYPES, Floats
from muser.selftest.machine import Machine, Program

EPS = 1e-5
TOKENS = 48  # rows of the embedding table


@dataclass(frozen=True)
class Case:
    """``rows`` of the result must be the same bits however many rows run beside each other; None: of no use here."""

    name: str
    program: Program


def start(m: Machine, n: int, decode: bool, cols: int, taps: int = 1, vocab: int = 1, **widths: int) -> None:
    """Rows of tokens 0, 1, .. in the residual. Weights are added before it: a device places them where a pass begins."""
    table = m.matrix("F32", TOKENS, cols, f"table {cols}", cols**0.5)
    m.ops.set_workspace(n, taps, vocab, {"residual": cols, "normed": cols, "branch": cols, **widths})
    m.ops.begin([], [i % TOKENS for i in range(n)], [0] * n, decode)
    m.ops.embed(table)


def product(type_name: str, n: int, decode: bool, rows: int, cols: int, softcap: float = 0.0) -> Program:
    """The head: a final norm, a matrix with a bias, scale and softcap."""

    def program(m: Machine) -> Floats:
        weight, norm = m.matrix(type_name, rows, cols, f"{type_name} {rows} {cols}"), m.vector(cols, "norm")
        bias = m.vector(rows, "bias", 0.0) if softcap else -1
        start(m, n, decode, cols, vocab=rows)
        m.ops.head(norm, EPS, weight, bias, 0.5 if softcap else 1.0, softcap)
        m.ops.commit()
        return m.ops.logits()

    return program


def embedding(type_name: str, op: int, cols: int) -> Program:
    def program(m: Machine) -> Floats:
        table = m.matrix(type_name, TOKENS, cols, f"{type_name} table")
        m.ops.set_workspace(5, 1, 1, {"residual": cols, "normed": cols, "branch": cols})
        m.ops.begin([], [7, 0, 47, 7, 33], [0] * 5, False)
        m.ops.embed(table, op, EPS if op == 2 else 3.0)
        m.ops.tap()
        m.ops.commit()
        return m.ops.taps(0)

    return program


def norms(n: int, decode: bool, cols: int, post: bool) -> Program:
    """norm, a product to the branch, residual_norm, and the next product reads what it normed."""

    def program(m: Machine) -> Floats:
        weight, bias = m.matrix("F32", cols, cols, "branch"), m.vector(cols, "bias", 0.0)
        norm, following = m.vector(cols, "norm"), m.vector(cols, "next")
        post_norm = m.vector(cols, "post", 0.5) if post else -1
        start(m, n, decode, cols, taps=2)
        m.ops.norm(norm, EPS)
        m.ops.matmul("normed", [(weight, -1, "branch")])
        m.ops.residual_norm(post_norm, 1e-8, following, EPS)
        m.ops.tap()
        m.ops.matmul("normed", [(weight, bias, "branch")])
        m.ops.residual_norm(-1, 0.0, -1, 0.0)
        m.ops.tap()
        m.ops.commit()
        return np.concatenate([m.ops.taps(0), m.ops.taps(1)])

    return program


def glu(gate: str, up: str, n: int, decode: bool, inner: int, gelu: bool) -> Program:
    def program(m: Machine) -> Floats:
        cols = 256
        norm, down = m.vector(cols, "norm"), m.matrix("F32", cols, inner, "down", 3.0)
        two = [(m.matrix(gate, inner, cols, "gate", 2.0), -1, "ffn_gate"), (m.matrix(up, inner, cols, "up", 2.0), -1, "ffn_up")]
        start(m, n, decode, cols, ffn_gate=inner, ffn_up=inner)
        m.ops.norm(norm, EPS)
        m.ops.matmul("normed", two)
        m.ops.glu(gelu)
        m.ops.matmul("ffn_gate", [(down, -1, "branch")])
        m.ops.residual_norm(-1, 0.0, -1, 0.0)
        m.ops.tap()
        m.ops.commit()
        return m.ops.taps(0)

    return program


@dataclass(frozen=True)
class Attention:
    """A prompt of ``keys`` tokens in each of ``width`` sessions, then two decode groups of them."""

    heads: int
    kv_heads: int
    head_dim: int
    kv: str = "f16"
    window: int = 0
    rope: str = "adjacent"  # or halves, none
    qk_norm: bool = True
    gated: bool = True
    keys: int = 150
    width: int = 2

    def __str__(self) -> str:
        words = [f"{self.heads} heads of {self.head_dim} over {self.kv_heads}", self.kv, f"{self.keys} keys"]
        return ", ".join([*words, f"window {self.window}" if self.window else "full", f"rope {self.rope}"])

    def __call__(self, m: Machine) -> Floats:
        cols, query, key = 64, self.heads * self.head_dim, self.kv_heads * self.head_dim
        widths = {"query": query, "key": key, "value": key, "attention": query, "gate": query}
        m.ops.set_workspace(self.keys, 1, 1, {"residual": cols, "normed": cols, "branch": cols, **widths})
        capacity = self.keys + 4 if not self.window else (self.window + self.keys + 63) // 64 * 64
        for _ in range(self.width):
            m.ops.add_session([(capacity, self.kv_heads, self.head_dim, self.kv, bool(self.window))])
        w = {
            name: m.matrix("F32", n, cols, name, 2.0)
            for name, n in (("query", query), ("key", key), ("value", key), ("gate", query))
        }
        out, table = m.matrix("F32", cols, query, "out"), m.matrix("F32", TOKENS, cols, "table", cols**0.5)
        norm = m.vector(cols, "norm")
        q_norm, k_norm = (m.vector(self.head_dim, f"{x} norm") if self.qk_norm else -1 for x in "qk")
        inv_freq = [1e4 ** (-2 * i / self.head_dim) for i in range(self.head_dim // 2)] if self.rope != "none" else []
        sources = ["query", "key", "value", *(["gate"] if self.gated else [])]
        results = []

        def step(sessions: list[int], tokens: list[int], positions: list[int], decode: bool) -> None:
            m.ops.begin(sessions, tokens, positions, decode)
            m.ops.embed(table)
            m.ops.norm(norm, EPS)
            m.ops.matmul("normed", [(w[name], -1, name) for name in sources])
            m.ops.attention(q_norm, k_norm, EPS, inv_freq, self.rope == "halves", self.heads, self.kv_heads, self.head_dim,
                            self.head_dim**-0.5, self.window)  # fmt: skip
            if self.gated:
                m.ops.attention_gate()
            m.ops.matmul("attention", [(out, -1, "branch")])
            m.ops.residual_norm(-1, 0.0, -1, 0.0)
            m.ops.tap()
            m.ops.commit()
            results.append(m.ops.taps(0))

        for s in range(self.width):
            n = self.keys - 7 * s
            step([s] * n, [(5 * i + s) % TOKENS for i in range(n)], list(range(n)), False)
        for i in range(2):
            step([*range(self.width)], [i] * self.width, [self.keys - 7 * s + i for s in range(self.width)], True)
        return np.concatenate(results)


def columns(type_name: str) -> int:
    """With a last tile that is not whole."""
    return {1: 528, 32: 544, 256: 768}[TYPES[type_name].values]


ATTENTION = (
    Attention(16, 1, 128),
    Attention(4, 2, 32, "f32", rope="halves", qk_norm=False, gated=False, width=4),
    Attention(3, 3, 64, window=20, rope="none"),
    Attention(4, 1, 256, "f32", window=33, keys=70, rope="halves", gated=False, width=1),
    Attention(4, 2, 64, "q8_0", rope="halves"),
)


def cases(quick: bool) -> Iterator[tuple[str, list[Case]]]:
    """(group, cases); ``quick`` is for the simulator."""
    few: Sequence[tuple[int, bool]] = [(n, True) for n in ((1, 4) if quick else (1, 2, 3, 4))]
    rows = [*few, (9, False)] if quick else [*few, (5, False), (35, False)]
    outputs = 11 if quick else 203
    for name in TYPES:
        made = [Case(f"{'decode' if d else 'prefill'} of {n}", product(name, n, d, outputs, columns(name))) for n, d in rows]
        made += [Case(f"embedding, op {op}", embedding(name, op, columns(name))) for op in ((0,) if quick else (0, 1, 2))]
        yield f"{name} [{outputs}, {columns(name)}]", made
    yield (
        "head with bias, scale and softcap",
        [Case(f"{n} rows", product("Q8_0", n, d, outputs, 544, 2.0)) for n, d in rows],
    )
    yield (
        "norms",
        [Case(f"{n} rows, post {post}", norms(n, d, 208, post)) for n, d in rows for post in (False, True)],
    )
    pairs = (("Q4_K", "Q4_K"),) if quick else (("Q4_K", "Q4_K"), ("Q6_K", "Q4_K"), ("F16", "F16"))
    yield (
        "glu",
        [Case(f"{gate} and {up}, {n} rows, gelu {gelu}", glu(gate, up, n, d, 80 if quick else 336, gelu))
         for gate, up in pairs for n, d in rows for gelu in (False, True)],
    )  # fmt: skip
    chosen = [replace(a, keys=min(a.keys, 40)) for a in ATTENTION[:3]] if quick else list(ATTENTION)
    chosen += [] if quick else [replace(ATTENTION[0], keys=700, width=4), replace(ATTENTION[0], window=300, keys=700)]
    yield "attention", [Case(str(a), a) for a in chosen]
