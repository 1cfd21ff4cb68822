"""The promise of the project: a row's logits are the same bytes alone and in any company.

Every weight type of every family (toy models, two layers: one sliding and one full where the family
slides), at group widths 1 to 4, every index in the group, neighbours at other positions; every prefill
chunking; every thread count; every CPU level. Bytes are compared, so a tolerance cannot hide anything.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engines import DEVICE, decode, open_engine, prefill
from toy import ALL_TYPES, ARCHITECTURES, write_toy

from muser.errors import ParameterError

WINDOW = 16
RING = WINDOW + 512  # rows of a ring plane
CONTEXT = RING + 32
VOCAB = 256  # ids below it are plain pieces in every toy vocabulary
CHUNKS = (1, 7, 64, 512)
THREADS = (1, 2, 3, 5)
LEVELS = ("portable", "avx2", "avxvnni", "avx512", "amx", "neon", "i8mm")
ON_CPU = pytest.mark.skipif(DEVICE != "cpu", reason="threads and levels are the CPU device's")
# The simulated Metal device is a thousand times slower. There the types of the published files run in one family and every
# family in float32; rings wrap in float32 alone: keys and values know nothing of the weights' type. The kernels of all
# types are compared over widths 1 to 4 in test_metal_products.py.
PUBLISHED = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K")
CASES = [
    (a, q, "f16")
    for a in ARCHITECTURES
    for q in ALL_TYPES
    if DEVICE == "cpu" or q == "F32" or (a == "muse-glimmer" and q in PUBLISHED)
]
CASES += [("muse-glimmer", "Q8_0", "q8_0")] + ([("gemma3", "F32", "q8_0")] if DEVICE == "cpu" else [])
SMALL = {"muse-glimmer": {"layers": 2, "pattern": [True, False]}, "gemma3": {"layers": 2, "pattern": 2}}


@pytest.fixture(scope="module")
def toy_path(tmp_path_factory: pytest.TempPathFactory):
    folder, made = tmp_path_factory.mktemp("toys"), {}

    def path_of(arch: str, quant: str) -> Path:
        if (arch, quant) not in made:
            made[arch, quant] = folder / f"{arch}-{quant}.gguf"
            write_toy(made[arch, quant], arch, quant=quant, context=CONTEXT, **SMALL.get(arch, {"layers": 2}))
        return made[arch, quant]

    return path_of


def rng_of(arch: str, quant: str) -> np.random.Generator:
    return np.random.default_rng([ARCHITECTURES.index(arch), ALL_TYPES.index(quant)])


def wraps(quant: str) -> bool:
    return DEVICE == "cpu" or quant == "F32"


def sequences(rng: np.random.Generator, lengths: list[int]) -> list[np.ndarray]:
    """Random tokens: `length` that are in the session already, and the row under test."""
    return [rng.integers(0, VOCAB, n + 1) for n in lengths]


@pytest.mark.parametrize("arch, quant, kv", CASES)
def test_group_width_index_and_neighbours(toy_path, arch: str, quant: str, kv: str) -> None:
    rng = rng_of(arch, quant)
    edges = [1, WINDOW - 1, WINDOW, WINDOW + 1]
    wrapped = [
        RING + int(rng.integers(0, 16)),
        int(rng.integers(1, 100)),
        int(rng.integers(RING - 4, RING + 4)),
        WINDOW + 1,
    ]
    solo = open_engine(toy_path(arch, quant), context=CONTEXT, kv_dtype=kv)
    company = open_engine(toy_path(arch, quant), slots=4, context=CONTEXT, kv_dtype=kv)
    for lengths in (edges, wrapped) if wraps(quant) else (edges,):
        rows = sequences(rng, [lengths[i] for i in rng.permutation(4)])
        expected = []
        for slot, row in enumerate(rows):
            solo.reset(0)
            company.reset(slot)
            whole = prefill(solo, row).tobytes()
            solo.rewind(0, len(row) - 1)
            expected.append(decode(solo, row[-1]).tobytes())
            # On Metal, prefill has kernels of its own (docs/guarantees.md).
            assert expected[-1] == whole or DEVICE == "metal", f"decode and prefill differ at position {len(row) - 1}"
            prefill(company, row[:-1], slot=slot)
        for width in (1, 2, 3, 4):
            for first in range(4):  # every slot comes to stand at every index
                slots = [(first + i) % 4 for i in range(width)]
                company.decode_group(slots, [int(rows[s][-1]) for s in slots], timeout=60.0)
                for index, slot in enumerate(slots):
                    same = company.logits(slot).tobytes() == expected[slot]
                    assert same, f"width {width}, index {index}, position {len(rows[slot]) - 1}"
                    company.rewind(slot, len(rows[slot]) - 1)


@pytest.mark.parametrize("arch, quant, kv", CASES)
def test_prefill_chunks(toy_path, arch: str, quant: str, kv: str) -> None:
    tokens = rng_of(arch, quant).integers(0, VOCAB, RING + 8 if wraps(quant) else 72)
    engine = open_engine(toy_path(arch, quant), context=CONTEXT, kv_dtype=kv)
    seen = set()
    for chunk in CHUNKS if DEVICE == "cpu" or not wraps(quant) else (64, 512):
        engine.reset(0)
        prefill(engine, tokens, chunk=chunk)
        seen.add(decode(engine, 7).tobytes())
    assert len(seen) == 1


def run_through(path: Path, tokens: np.ndarray, threads: int, kv: str) -> bytes:
    """Logits of a prefill, of decodes after it, and of a group of four."""
    engine = open_engine(path, slots=4, context=CONTEXT, kv_dtype=kv, threads=threads)
    out = [prefill(engine, tokens, slot=slot) for slot in range(4)]
    out += [decode(engine, token) for token in tokens[:2]]
    engine.decode_group([0, 1, 2, 3], tokens[:4].tolist(), timeout=60.0)
    return b"".join(logits.tobytes() for logits in out + [engine.logits(slot) for slot in range(4)])


@ON_CPU
@pytest.mark.parametrize("arch, quant, kv", CASES)
def test_thread_counts(toy_path, arch: str, quant: str, kv: str) -> None:
    tokens = rng_of(arch, quant).integers(0, VOCAB, 2 * WINDOW + 1)
    assert len({run_through(toy_path(arch, quant), tokens, threads, kv) for threads in THREADS}) == 1


@ON_CPU
@pytest.mark.parametrize("arch, quant", [("llama", "Q4_1"), ("gemma3", "Q8_0"), ("llama", "Q6_K"), ("qwen3", "F16")])
def test_rows_taken_through_a_layer(tmp_path: Path, arch: str, quant: str) -> None:
    """Of a long prompt of a narrow model several threads take rows of their own through everything between two attentions
    (pass_state.h), and quantize the feed-forward's values where they make them; one thread never does."""
    width = 768 if quant == "Q6_K" else 672  # columns are taken 256 at a time, and need not divide it
    write_toy(tmp_path / "wide.gguf", arch, quant=quant, context=CONTEXT, layers=2, d_ff=width)
    for length in (384, 512):
        tokens = rng_of(arch, quant).integers(0, VOCAB, length)
        seen = set()
        for threads, chunk in ((1, 64), (2, length), (3, length), (4, length)):
            engine = open_engine(tmp_path / "wide.gguf", context=CONTEXT, threads=threads)
            prefill(engine, tokens, chunk=chunk)
            seen.add(decode(engine, 7).tobytes())
        assert len(seen) == 1


@ON_CPU
@pytest.mark.parametrize("arch, quant, kv", CASES)
def test_cpu_levels(toy_path, monkeypatch: pytest.MonkeyPatch, arch: str, quant: str, kv: str) -> None:
    tokens = rng_of(arch, quant).integers(0, VOCAB, 2 * WINDOW + 1)
    results = {}
    for level in LEVELS:
        monkeypatch.setenv("MUSER_CPU_LEVEL", level)
        try:
            assert f"level {level}" in open_engine(toy_path(arch, quant)).device_description
            results[level] = run_through(toy_path(arch, quant), tokens, 1, kv)
        except ParameterError as error:
            assert level != "portable", error  # every other level needs its machine
    monkeypatch.delenv("MUSER_CPU_LEVEL")
    results["default"] = run_through(toy_path(arch, quant), tokens, 1, kv)
    assert len(set(results.values())) == 1, {level: hash(r) for level, r in results.items()}
