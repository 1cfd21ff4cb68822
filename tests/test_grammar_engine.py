"""llguidance through its C API is llguidance through its Python classes, bit for bit, and lets other threads run."""

from __future__ import annotations

import copy
import ctypes
import gc
import random
import subprocess
import sys
import threading
import time
import weakref

import llguidance
import numpy as np
import pytest
import text_vocabularies
from test_grammar import PERSON
from test_grammar_masks import CONTROL, EOS, PIECES

from muser import Grammar, GrammarEngineError, GrammarError, Model
from muser.errors import InternalError
from muser.grammar import backend, engine


class Wrapper:
    """What llguidance's Python class asks of a tokenizer."""

    is_tokenizer_wrapper, bos_token_id = True, None

    def __init__(self, pieces: list[bytes], control: list[int]) -> None:
        self.tokens, self.special_token_ids, self.eos_token_id = [*pieces, b"<end>"], [*control, len(pieces)], len(pieces)

    def __call__(self, text: str) -> list[int]:
        return []


def python_matcher(vocabulary: llguidance.LLTokenizer, grammar: Grammar) -> llguidance.LLMatcher:
    limits = {name: getattr(backend._LIMITS, name) for name, _ in engine.Limits._fields_}
    return llguidance.LLMatcher(vocabulary, grammar._lark, log_level=0, limits=llguidance.LLParserLimits(**limits))


def of_file(name: str) -> tuple[list[bytes], list[int]]:
    tokenizer = text_vocabularies.tokenizer(name)
    return tokenizer.pieces(), sorted(tokenizer.control_ids)


VOCABULARIES = {
    "tiny": lambda: of_file("tiny_muse"),
    "random": lambda: of_file("random_muse"),
    "sentencepiece": lambda: of_file("toy_sentencepiece"),
    "toy": lambda: (PIECES, [EOS, CONTROL]),
    "bytes": lambda: ([bytes([byte]) for byte in range(256)], []),
    # Ends of masks in the middle and at the end of a word; control tokens that are empty or marked already.
    "31": lambda: ([b"", b"\xff", b"\xff[1]", *(bytes([97 + i]) for i in range(26)), b'"', b"ab"], [0, 1, 2]),
    "32": lambda: ([b"", b"\xff", b"\xff[1]", *(bytes([97 + i]) for i in range(26)), b'"', b"ab", b"\xff[2]"], [0, 2]),
}
GRAMMARS = {
    "schema": Grammar.json_schema(PERSON),
    "object": Grammar.json_object(),
    "regex": Grammar.regex(r'[a-zé"]{2,9}( ?[a-z]{1,5}){0,4}[.!?]?'),
    "any": Grammar.regex(r"(?s:.*)"),
    "choice": Grammar.choice(["a", "ab", "abc", "yes — só", "ab\n\0"]),
    "recursive": Grammar.gbnf('root ::= item\nitem ::= [a-c] | "(" item ("+" item)* ")" | "\\"" [^"]* "\\""'),
    "end": Grammar.gbnf('root ::= "a" | "b" "c"?'),
}


@pytest.fixture(scope="module", params=VOCABULARIES)
def both(request) -> tuple[engine.Vocabulary, llguidance.LLTokenizer, list[bytes]]:
    pieces, control = VOCABULARIES[request.param]()
    wrapper = Wrapper(pieces, control)
    theirs = llguidance.LLTokenizer(wrapper, n_vocab=len(pieces) + 1, eos_token=len(pieces), slices=backend._SLICES)  # type: ignore[arg-type]
    return backend.vocabulary(pieces, control), theirs, pieces


def bits(words: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()


@pytest.mark.parametrize("name", GRAMMARS)
def test_a_matcher_is_that_of_the_python_class(both, name: str) -> None:
    """Masks, errors, ends, what is consumed and refused; with copies and steps back, along random texts."""
    vocabulary, theirs, pieces = both
    rng = random.Random(name)
    first = backend.compile_grammar(GRAMMARS[name]._lark, vocabulary)
    words, expected = np.empty((2, vocabulary.words), np.uint32)
    for _ in range(3):
        mine, oracle, depth = first.copy(), python_matcher(theirs, GRAMMARS[name]), 0
        for _ in range(25):
            words[:] = rng.getrandbits(32)
            mine.mask_into(words)
            oracle.unsafe_compute_mask_ptr(expected.ctypes.data, expected.nbytes)
            assert (mine.error is not None) == oracle.is_error()
            if mine.error is not None:
                assert mine.error == oracle.get_error()
                assert not mine.consume(97 % len(pieces)) and mine.valid([97 % len(pieces)]) == 0 and not mine.rollback(1)
                assert mine.copy().error == mine.error and not mine.accepting
                break
            assert words.tobytes() == expected.tobytes()
            assert mine.accepting == oracle.is_accepting()
            some = [rng.choice(bits(words)), *(rng.randrange(len(pieces)) for _ in range(3))]
            some = [token for token in some if token < len(pieces)]
            assert mine.valid(some) == oracle.validate_tokens(some)
            refused = rng.randrange(len(pieces))
            if not words[refused // 32] >> refused % 32 & 1:
                assert not mine.consume(refused) and oracle.try_consume_tokens([refused]) == 0
                assert mine.error is None and not oracle.is_error()
            if depth and rng.random() < 0.3:
                back = rng.randint(1, depth)
                assert mine.rollback(back) and oracle.rollback(back)
                depth -= back
                continue
            allowed = [token for token in bits(words) if token < len(pieces)]
            if not allowed:
                break
            if rng.random() < 0.3:  # what a copy does is its own affair
                mine, other = mine.copy(), mine
                assert other.consume(rng.choice(allowed))
            token = rng.choice(allowed)
            assert mine.consume(token, allowed=rng.random() < 0.5) and oracle.try_consume_tokens([token]) == 1
            depth += 1


def test_errors_of_compiling_are_those_of_the_python_class() -> None:
    theirs = llguidance.LLTokenizer(Wrapper([bytes([byte]) for byte in range(256)], []), n_vocab=257, eos_token=256, slices=backend._SLICES)  # type: ignore[arg-type]
    for lark in ("start: x\n", "start: /(/\n", "start: /\\p{Foo}/\n", 'start: %json {"type": 7}\n', 'start: "é\n'):
        matcher = engine.compile_lark(lark, backend.bytes_vocabulary(), backend._LIMITS)
        oracle = llguidance.LLMatcher(theirs, lark, log_level=0, limits=llguidance.LLParserLimits(verbose_errors=False))
        assert matcher.error and matcher.error == oracle.get_error(), lark
    with pytest.raises(InternalError):
        engine.compile_lark("start: /a/\0", backend.bytes_vocabulary(), backend._LIMITS)


def test_control_tokens_are_never_allowed_whatever_they_spell() -> None:
    pieces = [b"a", b"a", b"", b"\xff", b"<b>"]
    vocabulary = backend.vocabulary(pieces, [1, 2, 3])
    words = np.empty(vocabulary.words, np.uint32)
    backend.compile_grammar(Grammar.regex("(?s:.*)")._lark, vocabulary).mask_into(words)
    assert bits(words) == [0, 4, len(pieces)]


# Which llguidance takes some tenths of a second to sort.
LARGE = [b"", *(f"{number:x} {number * 7919 % 200_003:x}".encode() for number in range(200_000))]


def watch_sorting(monkeypatch) -> list[tuple[float, float]]:
    """When llguidance begins and ends to sort a vocabulary, from now on."""
    make, spans = engine.load().new_tokenizer_v2, []

    def watched(*arguments: object) -> object:
        start = time.perf_counter()
        made = make(*arguments)
        spans.append((start, time.perf_counter()))
        return made

    monkeypatch.setattr(engine.load(), "new_tokenizer_v2", watched)
    return spans


def ran_meanwhile(ticks: list[float], spans: list[tuple[float, float]]) -> bool:
    """Whether there were some ticks in the longest span, from a tenth of it to its half: the beginning and the end may belong
    to a thread that only waits for its turn, on a machine with too much to do."""
    start, end = max(spans, key=lambda span: span[1] - span[0])
    return sum(0.1 < (tick - start) / (end - start) < 0.5 for tick in ticks) >= 3


def test_other_threads_run_while_a_vocabulary_is_made(monkeypatch) -> None:
    """No number of ticks is too small, and a machine that stalled is asked again: a call that holds the interpreter lock
    lets nobody in."""
    spans, ended = watch_sorting(monkeypatch), threading.Event()
    ticks: list[float] = []

    def tick() -> None:
        while not ended.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        for _ in range(10):
            spans.clear()
            backend.vocabulary(LARGE, [0])
            if ran_meanwhile(ticks, spans):
                return
    finally:
        ended.set()
        thread.join()
    pytest.fail("nobody ran")


def test_what_may_work_for_long_lets_other_threads_run() -> None:
    functions, keeps = engine.load(), ctypes.pythonapi.Py_IsInitialized._flags_
    for name in engine._LONG:
        assert getattr(functions, name)._flags_ != keeps, name


def test_threads_with_one_matcher_take_turns() -> None:
    """It is not meant to be shared; it must not end the process either."""
    vocabulary = backend.bytes_vocabulary()
    matcher = backend.compile_grammar(GRAMMARS["any"]._lark, vocabulary)
    failed = []

    def work() -> None:
        words = np.empty(vocabulary.words, np.uint32)
        try:
            for _ in range(300):
                matcher.mask_into(words)
                assert matcher.consume(97) and matcher.valid([97, 98]) == 2 and matcher.copy().rollback(1) and matcher.rollback(1)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and matcher.error is None


def test_handles_are_freed_once_and_a_matcher_outlives_its_vocabulary() -> None:
    vocabulary = backend.vocabulary([b"a", b"b"], ())
    matcher, freed = backend.compile_grammar(GRAMMARS["end"]._lark, vocabulary), []
    shared = copy.copy(matcher)
    for owner in (vocabulary, matcher):
        free = owner._handle._free
        owner._handle._free = lambda handle, free=free: freed.append(handle) or free(handle)
        with pytest.raises(TypeError, match="cannot be copied"):
            copy.copy(owner._handle)
    handles = [matcher._handle._as_parameter_, vocabulary._handle._as_parameter_]
    del vocabulary, owner
    assert matcher.consume(1)
    del matcher
    assert not freed and shared.accepting
    del shared
    assert freed == handles


def test_another_llguidance_is_refused(monkeypatch) -> None:
    for found in (b"llguidance@1.9.1 derivre@0.3.13", b"llguidance@1.9.0", b"llguidance@1.9.12 x@1"):
        engine.check_version(found)
    for found, shown in ((b"llguidance@1.10.0 derivre@0.4.0", "1.10.0"), (b"llguidance@1.90.0", "1.90.0"), (b"llguidance@1.8.0 x", "1.8.0"), (b"", "b''"), (None, "None")):
        with pytest.raises(GrammarEngineError, match=f"need llguidance 1.9, and {shown} is installed"):
            engine.check_version(found)
    with pytest.raises(GrammarEngineError, match="does not export llg_new_tokenizer_v2, llg_free_tokenizer, .* llg_matcher_get_error"):
        engine._Functions(sys.modules["muser._muser"].__file__)
    engine.load.cache_clear()
    try:
        monkeypatch.setitem(sys.modules, "llguidance", None)
        with pytest.raises(ImportError, match="grammars need llguidance 1.9: ") as caught:
            engine.Vocabulary([b"a"], frozenset(), [])
        assert isinstance(caught.value, GrammarEngineError)
    finally:
        engine.load.cache_clear()


@pytest.mark.parametrize("change", ["longer", "value", "pointer", "nothing"])
def test_other_structures_are_refused(change: str) -> None:
    class Functions:
        def constraint_init_set_defaults(self, memory: int, tokenizer: int) -> None:
            engine.load().constraint_init_set_defaults(memory, tokenizer)
            size = ctypes.sizeof(engine._MatcherInit)
            if change == "longer":
                ctypes.c_uint8.from_address(memory + size).value = 0
            if change == "value":
                ctypes.c_uint8.from_address(memory + engine._MatcherInit.limits.offset + 8).value ^= 1
            if change == "pointer":
                ctypes.c_uint64.from_address(memory).value = 0
            if change == "nothing":
                ctypes.memset(memory, 0, size)

    engine._check_layout(engine.load())
    with pytest.raises(GrammarEngineError, match="structures"):
        engine._check_layout(Functions())  # type: ignore[arg-type]


SCRIPT = """
import gc
import muser
from muser.grammar.runtime import Runtime
from test_grammar_engine import GRAMMARS

def resident():
    gc.collect()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

class Large:
    control_ids = frozenset([0])
    def pieces(self):
        return [bytes([byte]) for byte in range(256)] + [f"{number:x}".encode() for number in range(60_000)]

def once():
    with muser.Model.tiny(context=256) as model:
        for runtime in (model._core.grammars, Runtime(Large(), 60_256, spare_core=True)):
            for grammar in GRAMMARS.values():
                constraint = runtime.constraint(grammar, ())
                constraint.begin()
                forks = [constraint.fork() for _ in range(50)]
                for fork in forks[:3]:
                    fork.mask()

for _ in range(4):
    once()
before = resident()
for _ in range(10):
    once()
print(before, resident())
"""


def test_a_closed_model_has_no_vocabulary() -> None:
    with Model.tiny(context=64) as model:
        assert model.generate("x", grammar=GRAMMARS["end"]).text in ("a", "b", "bc")
        runtime = model._core.grammars
        objects = [weakref.ref(runtime), weakref.ref(runtime._engine), *map(weakref.ref, runtime._compiled.values())]
        del runtime
    gc.collect()
    assert [found() for found in objects] == [None] * 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_closing_a_model_frees_what_the_engine_had() -> None:
    code = f"import sys; sys.path[:0] = {sys.path!r}\n{SCRIPT}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    before, after = (int(kib) for kib in done.stdout.split())
    assert after - before < 16384  # measured: 1,000; 110,000 where vocabularies stay, 415,000 where matchers do


def test_a_refused_grammar_is_a_grammar_error() -> None:
    with pytest.raises(GrammarError):
        backend.compile_grammar("start: x\n", backend.bytes_vocabulary())
