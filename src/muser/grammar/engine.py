"""llguidance, the grammar engine, through its C API: its vocabulary and its matchers as two classes that free what they own.

Not through its Python classes, which hold the interpreter lock while they sort a vocabulary (0.1 to 0.7 s). Calls of
ctypes do not; those that take a microsecond or less keep it, so that nobody waits to have it back.

A wrong layout would end the host's process. :func:`load` therefore takes only the version whose source the layouts
below were compared with, and checks what it can of them with values that the library itself writes.
"""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from ctypes import POINTER, c_bool, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from .._turns import in_turns
from ..errors import GrammarEngineError, InternalError

VERSION = "1.9"  # 1.9.0 and 1.9.1 have the same parser/src/ffi.rs; pyproject.toml bounds it likewise

# In front of a token that is no text (toktrie/src/toktree.rs, SPECIAL_TOKEN_MARKER).
_SPECIAL = b"\xff"
_PACKED_AT_ONCE = 8192  # pieces; about a millisecond


class Limits(ctypes.Structure):
    """``ParserLimits`` of parser/src/api.rs."""

    _fields_ = (
        ("max_items_in_row", c_size_t),
        ("initial_lexer_fuel", c_uint64),
        ("step_lexer_fuel", c_uint64),
        ("step_max_items", c_size_t),
        ("max_lexer_states", c_size_t),
        ("max_grammar_size", c_size_t),
        ("precompute_large_lexemes", c_bool),
        ("verbose_errors", c_bool),
    )


class _MatcherInit(ctypes.Structure):
    """``LlgConstraintInit`` of parser/src/ffi.rs."""

    _fields_ = (
        ("tokenizer", c_void_p),
        ("log_buffer_level", c_uint32),
        ("log_stderr_level", c_uint32),
        ("ff_tokens_ok", c_bool),
        ("backtrack_ok", c_bool),
        ("limits", Limits),
    )


class _VocabularyInit(ctypes.Structure):
    """``LlgTokenizerInitV2`` of parser/src/ffi.rs."""

    _fields_ = (
        ("struct_size", c_size_t),
        ("vocab_size", c_uint32),
        ("tok_eos", c_uint32),
        ("token_lens", c_void_p),
        ("token_bytes", c_void_p),
        ("tokenizer_json", c_char_p),
        ("tokenize_assumes_string", c_bool),
        ("tokenize_fn", c_void_p),
        ("use_approximate_greedy_tokenize_fn", c_bool),
        ("tokenize_user_data", c_void_p),
        ("slices", POINTER(c_char_p)),
        ("tok_eos_extra", c_void_p),
        ("tok_eos_extra_count", c_uint32),
    )


# What _MatcherInit holds after llg_constraint_init_set_defaults.
_DEFAULTS = (0, 1, False, False)
_DEFAULT_LIMITS = (2_000, 1_000_000, 200_000, 50_000, 250_000, 500_000, True, True)

# Result and arguments of functions that may work for long, and of those too short to give the interpreter lock away.
_LONG: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "new_tokenizer_v2": (c_void_p, (POINTER(_VocabularyInit), c_char_p, c_size_t)),
    "free_tokenizer": (None, (c_void_p,)),
    "new_matcher": (c_void_p, (POINTER(_MatcherInit), c_char_p, c_char_p)),
    "clone_matcher": (c_void_p, (c_void_p,)),
    "free_matcher": (None, (c_void_p,)),
    "matcher_compute_mask_into": (c_int32, (c_void_p, c_void_p, c_size_t)),
    "matcher_consume_token": (c_int32, (c_void_p, c_uint32)),
    "matcher_is_accepting": (c_bool, (c_void_p,)),
    "matcher_validate_tokens": (c_int32, (c_void_p, POINTER(c_uint32), c_size_t)),
    "matcher_rollback": (c_int32, (c_void_p, c_size_t)),
}
_SHORT: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "get_version": (c_char_p, ()),
    "constraint_init_set_defaults": (None, (c_void_p, c_void_p)),
    "matcher_get_error": (c_char_p, (c_void_p,)),
}


class _Functions:
    """Those of a library, each as an attribute without ``llg_``. GrammarEngineError for a library that lacks one."""

    def __init__(self, path: str) -> None:
        self._missing: list[str] = []
        self._add(ctypes.CDLL(path), _LONG)
        self._add(ctypes.PyDLL(path), _SHORT)
        if self._missing:
            names = ", ".join(self._missing)
            raise GrammarEngineError(f"grammars need llguidance {VERSION}, and {path} does not export {names}")

    def _add(self, library: ctypes.CDLL, functions: dict[str, tuple[Any, tuple[Any, ...]]]) -> None:
        for name, (result, arguments) in functions.items():
            function = getattr(library, f"llg_{name}", None)
            if function is None:
                self._missing.append(f"llg_{name}")
            else:
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...


@functools.lru_cache(maxsize=1)
def load() -> _Functions:
    """GrammarEngineError where llguidance is missing, or another than those that were checked."""
    try:
        from llguidance import _lib
    except ImportError as error:
        raise GrammarEngineError(f"grammars need llguidance {VERSION}: {error}") from error
    functions = _Functions(str(_lib.__file__))
    check_version(functions.get_version())
    _check_layout(functions)
    return functions


def check_version(found: bytes | None) -> None:
    """``found``: as the library says it, such as b"llguidance@1.9.1 derivre@0.3.13"."""
    named = re.match(rb"llguidance@(\S+)", found or b"")
    version = named[1].decode(errors="replace") if named else repr(found)
    if not version.startswith(f"{VERSION}."):
        raise GrammarEngineError(f"grammars need llguidance {VERSION}, and {version} is installed")


def _check_layout(functions: _Functions) -> None:
    size, room, marker = ctypes.sizeof(_MatcherInit), 1024, 0xA5
    memory = (ctypes.c_uint8 * (size + room))(*[marker] * (size + room))
    functions.constraint_init_set_defaults(ctypes.addressof(memory), 4096)  # it looks at no tokenizer
    init = _MatcherInit.from_buffer(memory)
    limits = tuple(getattr(init.limits, name) for name, _ in Limits._fields_)
    found = (init.log_buffer_level, init.log_stderr_level, init.ff_tokens_ok, init.backtrack_ok)
    if init.tokenizer != 4096 or (found, limits) != (_DEFAULTS, _DEFAULT_LIMITS) or set(memory[size:]) != {marker}:
        raise GrammarEngineError(f"llguidance {VERSION} is built with other structures than its source has")


class _Handle:
    """An object of the library. It is freed with this one, which nobody can copy."""

    def __init__(self, value: int, free: Callable[[int], None]) -> None:
        self._as_parameter_ = value  # what ctypes passes
        self._free = free

    def __del__(self) -> None:
        self._free(self._as_parameter_)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an object of llguidance cannot be copied or pickled")


class Vocabulary:
    """Pieces by id, as the engine sorts them; immutable, for any number of threads and matchers."""

    def __init__(self, pieces: Sequence[bytes], control: AbstractSet[int], slices: Sequence[str]) -> None:
        """One token more follows the ``pieces``: it stands for the end of the text. ``control``: ids that are no text.
        ``slices``: regular expressions of kinds of text whose tokens are sorted beforehand."""
        self._functions = functions = load()
        lengths, text = _packed(pieces, control)
        expressions = [part.encode() for part in slices]
        init = _VocabularyInit(
            struct_size=ctypes.sizeof(_VocabularyInit),
            vocab_size=len(lengths),
            tok_eos=len(pieces),
            token_lens=lengths.ctypes.data,
            token_bytes=text.ctypes.data,
            # Never used: HEADER in lark.py turns the engine's own tokenizing off.
            use_approximate_greedy_tokenize_fn=True,
            slices=(c_char_p * (len(expressions) + 1))(*expressions, None),
        )
        message = ctypes.create_string_buffer(1024)
        made = functions.new_tokenizer_v2(init, message, len(message))
        if made is None:
            raise InternalError(f"llguidance refuses the vocabulary: {message.value.decode(errors='replace')}")
        self._handle = _Handle(made, functions.free_tokenizer)
        self.words = -(-len(lengths) // 32)
        """uint32 in a mask."""


def _packed(pieces: Sequence[bytes], control: AbstractSet[int]) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Lengths, and the bytes one after the other, with control tokens marked, and with the end."""
    lengths, parts = [], []
    for turn in in_turns(len(pieces), _PACKED_AT_ONCE):
        part = [_special(piece) if token in control else piece for token, piece in zip(turn, pieces[turn.start : turn.stop])]
        lengths.append(np.fromiter(map(len, part), np.uint32, len(part)))
        parts.append(b"".join(part))
    end = _special(b"<end>")
    lengths.append(np.array([len(end)], np.uint32))
    return np.concatenate(lengths), np.frombuffer(b"".join([*parts, end]), np.uint8)


def _special(piece: bytes) -> bytes:
    return piece if piece.startswith(_SPECIAL) else _SPECIAL + piece


class Matcher:
    """A grammar and the tokens that it consumed. One thread's at a time: another one waits."""

    def __init__(self, vocabulary: Vocabulary, handle: int | None) -> None:
        """Takes the handle over. From :func:`compile_lark` or :meth:`copy`."""
        if handle is None:
            raise InternalError("llguidance made no matcher")
        self._functions = functions = vocabulary._functions
        self._handle = _Handle(handle, functions.free_matcher)
        self._vocabulary = vocabulary  # which must live as long
        self._lock = threading.Lock()

    def copy(self) -> Matcher:
        with self._lock:
            return Matcher(self._vocabulary, self._functions.clone_matcher(self._handle))

    @property
    def error(self) -> str | None:
        """Why it refuses everything from now on, or None."""
        with self._lock:
            message: bytes | None = self._functions.matcher_get_error(self._handle)
        return None if message is None else message.decode(errors="replace")

    @property
    def accepting(self) -> bool:
        """Whether the text is complete."""
        with self._lock:
            return bool(self._functions.matcher_is_accepting(self._handle))

    def mask_into(self, words: NDArray[np.uint32]) -> None:
        """Bit ``i % 32`` of word ``i // 32``: token i may come next. Look at :attr:`error` afterwards."""
        if words.dtype != np.uint32 or words.shape != (self._vocabulary.words,) or not words.flags.carray:
            raise InternalError(f"a mask has {self._vocabulary.words} uint32")
        with self._lock:
            self._functions.matcher_compute_mask_into(self._handle, words.ctypes.data, words.nbytes)

    def valid(self, tokens: Sequence[int]) -> int:
        """How many of them could be consumed, one after another; 0 after an error."""
        array = (c_uint32 * len(tokens))(*tokens)
        with self._lock:
            count: int = self._functions.matcher_validate_tokens(self._handle, array, len(tokens))
        return max(0, count)

    def consume(self, token: int, *, allowed: bool = False) -> bool:
        """Whether it may come next; if not, nothing has changed. ``allowed``: the mask said so. Look at :attr:`error`
        afterwards."""
        if not allowed and self.valid([token]) != 1:
            return False
        with self._lock:
            return bool(self._functions.matcher_consume_token(self._handle, token) == 0)

    def rollback(self, count: int) -> bool:
        with self._lock:
            return bool(self._functions.matcher_rollback(self._handle, count) == 0)


def compile_lark(lark: str, vocabulary: Vocabulary, limits: Limits) -> Matcher:
    """At the beginning of a text. Look at :attr:`Matcher.error` afterwards. Prints nothing."""
    text = lark.encode()
    if b"\0" in text:
        raise InternalError("a NUL would end the grammar")
    functions = vocabulary._functions
    init = _MatcherInit(tokenizer=vocabulary._handle._as_parameter_, limits=limits)
    return Matcher(vocabulary, functions.new_matcher(init, b"lark", text))
