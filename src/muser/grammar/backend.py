"""All that is known of ``llguidance``, the grammar engine: its limits, its vocabulary, its errors. Nothing of it is
imported before the first grammar is made.

Compiling runs in a thread of its own with a deep stack: the engine recurses over chains of rules, and what overflows
there would end the process.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..errors import GrammarDeadEndError, GrammarError, GrammarLimitError, MuserError, OutOfMemoryError

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLParserLimits, LLTokenizer

T = TypeVar("T")

# Kinds of text whose tokens the engine sorts beforehand. Inside strings masks take 0.1 ms with them and 2 to 7 ms without;
# each kind adds a fifth to the time of vocabulary().
_SLICES = [r'[^"\\\x00-\x1F\x7F]{1,30}', r'[^"\\\x00-\x1F\x7F]+']

STACK_BYTES = 256 << 20  # reserved, not used: measured need is below 8 kB a rule, and places.py bounds the rules
_stack_lock = threading.Lock()

_TOO_MUCH = re.compile(r"too (?:many|big|complex|large|deeply)|fuel|limit|Current row has", re.IGNORECASE)
_CONTEXT = re.compile(r"^(?:at )?\d+\(\d+\): ")


def limits() -> LLParserLimits:
    """What bounds the time of a mask (about 0.15 s at worst) and the memory of a slot's grammar (about 50 MB)."""
    from llguidance import LLParserLimits

    return LLParserLimits(
        initial_lexer_fuel=1_000_000,
        step_lexer_fuel=200_000,
        step_max_items=50_000,
        max_items_in_row=2_000,
        max_lexer_states=25_000,
        max_grammar_size=500_000,
        verbose_errors=False,
    )


def vocabulary(pieces: Sequence[bytes], control: Iterable[int]) -> LLTokenizer:
    """The pieces of a model, by id, with one token more at the end: it stands for the end of the text.

    The engine holds the interpreter lock while it sorts them.
    """
    from llguidance import LLTokenizer

    source = _Pieces([*pieces, b"<end>"], [*control, len(pieces)])
    made = LLTokenizer(
        source,  # type: ignore[arg-type]  # has what a TokenizerWrapper has
        n_vocab=len(pieces) + 1,
        eos_token=len(pieces),
        slices=_SLICES,
    )
    source.tokens = []  # the engine has its own copy
    return made


class _Pieces:
    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokens: list[bytes], special: list[int]) -> None:
        self.tokens = tokens
        self.special_token_ids = special
        self.eos_token_id = special[-1]

    def __call__(self, text: object) -> list[int]:
        return []  # the engine asks nothing of it: HEADER in lark.py turns its own tokenizing off


@functools.lru_cache(maxsize=1)
def bytes_vocabulary() -> LLTokenizer:
    """A token a byte: whatever a grammar allows, it allows here."""
    return vocabulary([bytes([byte]) for byte in range(256)], ())


def compile_grammar(lark: str, tokens: LLTokenizer) -> LLMatcher:
    """At the beginning of a text. GrammarError for what the engine refuses."""

    def build() -> LLMatcher:
        from llguidance import LLMatcher

        return LLMatcher(tokens, lark, log_level=0, limits=limits())

    matcher = on_deep_stack(build)
    if matcher.is_error():
        raise refused(matcher.get_error())
    return matcher


def check_grammar(lark: str) -> None:
    """GrammarError if the engine refuses it, or if no text begins; takes about a millisecond."""
    matcher = compile_grammar(lark, bytes_vocabulary())
    matcher.compute_bitmask()
    if matcher.is_error():
        error = stuck(matcher.get_error())
        raise error if isinstance(error, GrammarLimitError) else GrammarError("no text matches this grammar")


def refused(message: str) -> GrammarError:
    """The engine's refusal, without its excerpt of a text that the user never saw."""
    text = _CONTEXT.sub("", message).split("\n   1 |")[0].strip()
    return (GrammarLimitError if _TOO_MUCH.search(text) else GrammarError)(text)


def stuck(message: str) -> MuserError:
    """Why a matcher that was compiled has stopped."""
    text = message.split("\n")[0]
    if _TOO_MUCH.search(text):
        return GrammarLimitError(f"the grammar needs more steps for its next token than it may take: {text}")
    return GrammarDeadEndError("no token of the vocabulary continues the text, and the grammar cannot end here")


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
