"""Token ids to text while they arrive: a chunk never ends inside a character.

A character may be spread over several tokens. Its bytes are held back until it is whole. Bytes that cannot become
a character any more turn into U+FFFD at once (one for each maximal invalid part, as Unicode recommends and
``bytes.decode`` does); bytes that still could, do so at :meth:`Detokenizer.flush`. Nothing else is changed: a
U+FFFD or a NUL that the model really wrote comes through.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

_decoder = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """One stream of tokens. Not shared between threads; at most 3 bytes of state.

    ``continuation``: the tokens go on after a prompt. Otherwise they are a text of their own, and the space that
    a SentencePiece encoder puts in front is taken off again.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        skip_special: bool = False,
        continuation: bool = True,
        pending: bytes = b"",
    ) -> None:
        """``pending``: the bytes that an earlier detokenizer held back (session files)."""
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._drop_space = tokenizer.add_space_prefix and not continuation
        self._decoder = _decoder(errors="replace")
        self._decoder.decode(pending)

    @property
    def pending(self) -> bytes:
        """The held-back bytes: the beginning of one character, or empty."""
        return self._decoder.getstate()[0]

    def push(self, token: int) -> str:
        """The text that ``token`` completes; empty while a character is unfinished. ParameterError for a bad id."""
        data = self._tokenizer.token_bytes(token)
        if self._tokenizer.is_control(token):
            return "" if self._skip_special else self._decode(data)
        if self._drop_space and data:
            self._drop_space = False
            data = data.removeprefix(b" ")
        return self._decode(data)

    def push_all(self, tokens: Iterable[int]) -> str:
        return "".join([self.push(token) for token in tokens])

    def flush(self) -> str:
        """Ends the stream: U+FFFD for an unfinished character, else empty. The detokenizer can be used again."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text

    def _decode(self, data: bytes) -> str:
        text = self._decoder.decode(data)
        # Python waits for the third byte of a surrogate, which UTF-8 does not have: it is decided already.
        if b"\xed\xa0" <= self.pending < b"\xee":
            text += self.flush()
        return text
