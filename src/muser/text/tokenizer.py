"""The tokenizer of one model, built from the vocabulary in its GGUF file.

Text that a user types never becomes a control token: that needs ``parse_special=True``, which is for text from a
chat template. Checking the vocabulary happens at once, building the encoder at the first :meth:`Tokenizer.encode`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from .. import _checks as checks
from ..errors import ParameterError
from .bpe import BpeEncoder
from .fragments import Fragments
from .metadata import Metadata
from .pieces import all_piece_bytes, piece_bytes
from .spm import SpmEncoder
from .templates import read_templates
from .token_type import TokenType
from .vocabulary import Vocabulary, read_vocabulary

_ERRORS = ("replace", "ignore", "strict")


class Tokenizer:
    """Immutable, and safe to use from any number of threads.

    ``metadata``: anything with ``get(key)``, such as the file's metadata as a dict. ``path`` and ``offsets`` (key to byte) are for error messages.
    Raises UnsupportedModelError for a kind of vocabulary that muser lacks, ModelFormatError for broken data.
    """

    def __init__(
        self, metadata: Metadata, *, path: str | None = None, offsets: Mapping[str, int] | None = None
    ) -> None:
        vocabulary = read_vocabulary(metadata, path, offsets)
        self._vocabulary = vocabulary
        self._build_lock = threading.Lock()
        self._encoder: BpeEncoder | SpmEncoder | None = None
        self._pieces: dict[int, bytes] = {}
        user_defined = _literals(
            vocabulary, np.flatnonzero(vocabulary.ordinary(TokenType.USER_DEFINED)).tolist()
        )
        control = _literals(vocabulary, sorted(vocabulary.control))
        self._text_fragments = Fragments(user_defined)
        self._all_fragments = Fragments(user_defined + control)
        self._control_fragments = Fragments(control)
        self.chat_templates: dict[str, str] = read_templates(metadata)

        self.vocab_size: int = len(vocabulary.tokens)
        self.bos_id: int | None = vocabulary.bos
        self.eos_id: int | None = vocabulary.eos
        self.eot_id: int | None = vocabulary.eot
        self.eom_id: int | None = vocabulary.eom
        self.unk_id: int | None = vocabulary.unknown
        self.pad_id: int | None = vocabulary.padding
        self.mask_id: int | None = vocabulary.mask
        self.stop_ids: frozenset[int] = vocabulary.stop
        self.control_ids: frozenset[int] = vocabulary.control
        self.add_bos: bool = vocabulary.add_bos
        self.add_eos: bool = vocabulary.add_eos
        self.add_space_prefix: bool = vocabulary.add_space_prefix

    def encode(self, text: str, *, add_bos: bool | None = None, parse_special: bool = False) -> list[int]:
        """Token ids of ``text``.

        ``add_bos``: True puts the begin-of-text token in front, False does not; None does what the file says, but
        never doubles one that ``text`` begins with. ``parse_special``: control tokens written in ``text`` become
        themselves. An end-of-text token is never appended, whatever the file says: a prompt is to be continued.

        Raises ParameterError where an argument is of another type, where ``text`` cannot be encoded as UTF-8 (a lone
        surrogate) or spelled with this vocabulary, where it has more than 2,000,000 characters without a place
        to cut, and for ``add_bos=True`` where the vocabulary has no such token.
        """
        _check_text(text)
        checks.boolean("parse_special", parse_special)
        self._check_bos(add_bos)
        ids = self._encode_fragments((self._all_fragments if parse_special else self._text_fragments).split(text))
        return self._begun(ids, add_bos)

    def control_parts(self, text: str) -> Iterator[str | int]:
        """Cuts ``text`` into its control tokens (ids) and the texts between them: for a template's own text."""
        return self._control_fragments.split(checks.string("text", text))

    def encode_parts(self, parts: Iterable[str | int], *, add_bos: bool | None = None) -> list[int]:
        """Ids of a text in parts: ids stand for themselves, no control token is looked for in the texts.

        ``add_bos`` and errors as for :meth:`encode`.
        """
        if isinstance(parts, (str, bytes, bytearray, memoryview)) or not isinstance(parts, Iterable):
            raise checks.refuse("parts", "must be an iterable of str and token ids", parts)
        self._check_bos(add_bos)
        pieces: list[str | int] = []
        for index, part in enumerate(parts):
            if isinstance(part, (int, np.integer)):
                pieces.append(self._checked(part))
            elif isinstance(part, str):
                _check_text(part)
                pieces += self._text_fragments.split(part)
            else:
                raise checks.refuse("parts", "must be a str or a token id", part, index)
        return self._begun(self._encode_fragments(pieces), add_bos)

    def _check_bos(self, add_bos: object) -> None:
        if add_bos is not None and not isinstance(add_bos, bool):
            raise checks.refuse("add_bos", "must be True, False or None", add_bos)
        if add_bos and self.bos_id is None:
            raise ParameterError(
                "add_bos is True, but the vocabulary has no begin-of-text token",
                parameter="add_bos",
                value=add_bos,
            )

    def _begun(self, ids: list[int], add_bos: bool | None) -> list[int]:
        if add_bos is None:
            add_bos = self.add_bos and ids[:1] != [self.bos_id]
        return [self.bos_id, *ids] if add_bos and self.bos_id is not None else ids

    def _encode_fragments(self, fragments: Iterable[str | int]) -> list[int]:
        encoder = self._encoder or self._build()
        ids: list[int] = []
        after_special = True
        for part in fragments:
            if isinstance(part, int):
                ids.append(part)
                after_special = True
            else:
                ids += encoder.encode(" " + part if self.add_space_prefix and after_special else part)
                after_special = False
        return ids

    def decode(self, ids: Iterable[int], *, skip_special: bool = False, errors: str = "replace") -> str:
        """The text of ``ids``, as a text of its own; for tokens that go on after others see :class:`Detokenizer`.

        ``skip_special`` leaves control tokens out. ``errors``: "replace" (U+FFFD), "ignore" or "strict"
        (UnicodeDecodeError) for bytes that are not UTF-8. Raises ParameterError for a bad argument or id.
        """
        checks.choice("errors", errors, _ERRORS)
        checks.boolean("skip_special", skip_special)
        drop_space = self.add_space_prefix
        parts = []
        for token in checks.token_array("ids", ids, self.vocab_size).tolist():
            data = self.token_bytes(token)
            if self.is_control(token):
                data = b"" if skip_special else data
            elif drop_space and data:
                data = data.removeprefix(b" ")
                drop_space = False
            parts.append(data)
        return b"".join(parts).decode("utf-8", errors)

    def token_bytes(self, token: int) -> bytes:
        """What one token adds to the text; possibly a part of a character. ParameterError for a bad id."""
        index = self._checked(token)
        known = self._pieces.get(index)
        if known is None:
            known = self._pieces[index] = piece_bytes(self._vocabulary, index)
        return known

    def pieces(self) -> list[bytes]:
        """:meth:`token_bytes` of every token, by id. Made anew each time."""
        return all_piece_bytes(self._vocabulary)

    def token_text(self, token: int) -> str:
        """The token as the vocabulary spells it (for a control token: what a template writes)."""
        return self._vocabulary.text(self._checked(token))

    def token_id(self, text: str) -> int | None:
        """The id of the token that the vocabulary spells ``text``, or None."""
        return self._vocabulary.ids.find(checks.string("text", text))

    def is_control(self, token: int) -> bool:
        """Whether the token steers the model instead of being text. False for a number that is no id."""
        if type(token) is int:  # once for every token of a text
            return token in self._vocabulary.control
        return checks.whole("token", token) in self._vocabulary.control

    def _build(self) -> BpeEncoder | SpmEncoder:
        with self._build_lock:
            if self._encoder is None:
                kind = BpeEncoder if self._vocabulary.model == "gpt2" else SpmEncoder
                self._encoder = kind(self._vocabulary)
            return self._encoder

    def _checked(self, token: int) -> int:
        return checks.integer("token", token, 0, self.vocab_size - 1)


def _literals(vocabulary: Vocabulary, tokens: list[int]) -> list[tuple[str, int]]:
    return [(text, token) for token in tokens if (text := vocabulary.text(token))]


def _check_text(text: str) -> None:
    if not isinstance(text, str):
        raise checks.refuse("text", "must be a str", text)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ParameterError(
            f"text[{error.start}] is {text[error.start]!r}, which UTF-8 cannot encode",
            parameter="text",
            value=text[error.start],
        ) from None
