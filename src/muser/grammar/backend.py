"""How muser uses the grammar engine: its limits, its vocabularies, its errors. Nothing of ``llguidance`` is imported
before the first grammar is made.

Compiling runs in a thread of its own with a deep stack: the engine recurses over chains of rules, and what overflows
there would end the process.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from ..errors import GrammarDeadEndError, GrammarError, GrammarLimitError, MuserError, OutOfMemoryError
from .engine import Limits, Matcher, Vocabulary, compile_lark

T = TypeVar("T")

# Kinds of text whose tokens the engine sorts beforehand. Inside strings masks take 0.1 ms with them and 2 to 7 ms without;
# each kind adds a fifth to the time of vocabulary().
_SLICES = [r'[^"\\\x00-\x1F\x7F]{1,30}', r'[^"\\\x00-\x1F\x7F]+']

# They bound the time of a mask (about 0.15 s at worst) and the memory of a slot's grammar (about 50 MB).
_LIMITS = Limits(
    initial_lexer_fuel=1_000_000,
    step_lexer_fuel=200_000,
    step_max_items=50_000,
    max_items_in_row=2_000,
    max_lexer_states=25_000,
    max_grammar_size=500_000,
    precompute_large_lexemes=True,
    verbose_errors=False,
)

STACK_BYTES = 256 << 20  # reserved, not used: measured need is below 8 kB a rule, and places.py bounds the rules
_stack_lock = threading.Lock()

_TOO_MUCH = re.compile(r"too (?:many|big|complex|large|deeply)|fuel|limit|Current row has", re.IGNORECASE)
_CONTEXT = re.compile(r"^(?:at )?\d+\(\d+\): |^failed to compile JSON schema: ")
_LOOKAROUND = re.compile(r"lookarounds not supported yet; (\w+)(?: in regex /(.*)/)?", re.DOTALL)
_HINT = re.compile(r"[;.,] *(?:either )?(?:increase|disable|enable) ['`]?\w+.*", re.IGNORECASE | re.DOTALL)
CONDITIONS = {  # by the beginning of the engine's name for them
    "Word": "word boundaries are not supported",
    "Start": "^ is supported only at the beginning, and not with the flag m",
    "": "$ is supported only at the end, and not with the flag m",
}
_OURS = (
    ("oneOf constraints are not supported", '"oneOf" is supported only where no value fits two of its schemas; see "anyOf"'),
    ("lexer precomputation failed", "the grammar is too large: its parts have too many states together"),
    ("lexer error", "the text ends or goes on where the notation does not allow it"),
)


def vocabulary(pieces: Sequence[bytes], control: Iterable[int]) -> Vocabulary:
    """The pieces of a model, by id, with one token more at the end: it stands for the end of the text."""
    return Vocabulary(pieces, frozenset(control), _SLICES)


@functools.lru_cache(maxsize=1)
def bytes_vocabulary() -> Vocabulary:
    """A token a byte: whatever a grammar allows, it allows here."""
    return vocabulary([bytes([byte]) for byte in range(256)], ())


def compile_grammar(lark: str, tokens: Vocabulary) -> Matcher:
    """At the beginning of a text. GrammarError for what the engine refuses."""
    matcher = on_deep_stack(lambda: compile_lark(lark, tokens, _LIMITS))
    error = matcher.error
    if error is not None:
        raise refused(error)
    return matcher


def check_grammar(lark: str) -> None:
    """GrammarError if the engine refuses it, or if no text begins; takes about a millisecond."""
    tokens = bytes_vocabulary()
    matcher = compile_grammar(lark, tokens)
    matcher.mask_into(np.empty(tokens.words, np.uint32))
    message = matcher.error
    if message is not None:
        error = stuck(message)
        raise error if isinstance(error, GrammarLimitError) else GrammarError("no text matches this grammar")


def refused(message: str) -> GrammarError:
    """The engine's refusal, without its excerpt of a text that the user never saw."""
    text = _CONTEXT.sub("", _CONTEXT.sub("", message)).split("\n   1 |")[0].strip()
    kind = GrammarLimitError if _TOO_MUCH.search(text) else GrammarError
    lookaround = _LOOKAROUND.search(text)
    if lookaround:
        reason = next(ours for theirs, ours in CONDITIONS.items() if lookaround[1].startswith(theirs) or not theirs)
        return GrammarError(f"{reason}: {lookaround[2]}" if lookaround[2] else reason)
    return kind(_reworded(text))


def stuck(message: str) -> MuserError:
    """Why a matcher that was compiled has stopped."""
    text = message.split("\n")[0]
    if _TOO_MUCH.search(text):
        return GrammarLimitError(f"the grammar needs more steps for its next token than it may take: {_reworded(text)}")
    return GrammarDeadEndError("no token of the vocabulary continues the text, and the grammar cannot end here")


def _reworded(text: str) -> str:
    """Without the engine's advice, which names options that muser's callers do not have."""
    for theirs, ours in _OURS:
        if theirs in text:
            return ours
    return _HINT.sub("", text.replace("Unimplemented keys:", "these keywords are not supported:"))


def on_deep_stack(work: Callable[[], T]) -> T:
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="muser-grammar", daemon=True)
    with _stack_lock:
        before = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        except (RuntimeError, MemoryError):
            raise OutOfMemoryError(
                f"no {STACK_BYTES >> 20} MiB of address space for the stack that compiles grammars", needed=STACK_BYTES
            ) from None
        finally:
            threading.stack_size(before)
    thread.join()
    if failed:
        raise failed[0]
    return done[0]
