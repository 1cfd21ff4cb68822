"""Typed access to the ``tokenizer.ggml.*`` keys of a GGUF file.

Every value that a file gives is checked here for its type; what the values mean is checked in ``vocabulary``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._muser import GgufFile, Strings
from ..errors import ModelFormatError, UnsupportedModelError

PREFIX = "tokenizer.ggml."


class Metadata(Protocol):
    """What is needed of a source: a ``dict`` has it, and so has a ``GgufFile``. Arrays may come as lists, numpy
    arrays or ``Strings``."""

    def get(self, key: str, /) -> object: ...


class FileMetadata:
    """The metadata of an open file; arrays without a Python object for each of their elements."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file

    def get(self, key: str, /) -> object:
        array = self._file.array(key)
        return self._file.get(key) if array is None else array


def broken(message: str, path: str | None, offsets: Mapping[str, int]) -> ModelFormatError:
    """``message`` begins with a key; ``offsets`` tells where in the file it is, if that is known."""
    offset = offsets.get(re.split(r"[\s\[]", message, maxsplit=1)[0])
    if offset is not None:
        message += f" (at byte {offset})"
    return ModelFormatError(message if path is None else f"{path}: {message}", path=path, offset=offset)


class MetadataReader:
    """Reads keys below ``tokenizer.ggml.``; a value of the wrong type raises :class:`ModelFormatError`."""

    def __init__(self, source: Metadata, path: str | None, offsets: Mapping[str, int] | None = None) -> None:
        self._source = source
        self._path = path
        self._offsets = offsets or {}

    def broken(self, message: str) -> ModelFormatError:
        """An error with the file's path, and the offset of the key that ``message`` begins with."""
        return broken(message, self._path, self._offsets)

    def unsupported(self, message: str) -> UnsupportedModelError:
        error = UnsupportedModelError(message if self._path is None else f"{self._path}: {message}")
        error.path = self._path
        return error

    def architecture(self) -> str:
        value = self._source.get("general.architecture")
        return value if isinstance(value, str) else ""

    def string(self, key: str) -> str | None:
        value = self._source.get(PREFIX + key)
        if value is not None and not isinstance(value, str):
            raise self._wrong_type(key, value, "a UTF-8 string")
        return value

    def boolean(self, key: str) -> bool | None:
        value = self._source.get(PREFIX + key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong_type(key, value, "a bool")
        return value

    def token_id(self, key: str, count: int, *, tolerant: bool = False) -> int | None:
        """A token id below ``count``, or None where the key is missing. ``tolerant``: or out of range."""
        value = self._source.get(PREFIX + key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong_type(key, value, "an integer")
        if not 0 <= value < count:
            if tolerant:
                return None
            raise self.broken(f"{PREFIX}{key} is {value}, but the vocabulary has {count} tokens")
        return value

    def strings(self, key: str) -> Strings:
        wanted = "a UTF-8 string"
        value = self._source.get(PREFIX + key)
        if value is None:
            raise self.broken(f"{PREFIX}{key} is missing")
        if not isinstance(value, Strings):
            texts = self._list_of(key, value, (str,), wanted)
            try:
                value = Strings(texts)
            except UnicodeEncodeError as error:  # a lone surrogate
                raise self._wrong_type(f"{key}[{texts.index(error.object)}]", error.object, wanted) from None
        wrong = value.first_invalid()
        if wrong is not None:
            raise self._wrong_type(f"{key}[{wrong}]", value[wrong], wanted)
        return value

    def numbers(self, key: str, count: int) -> NDArray[Any] | None:
        """An array of exactly ``count`` numbers, or None where the key is missing."""
        value = self._source.get(PREFIX + key)
        if value is None:
            return None
        if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "iuf":
            value = self._list_of(key, value, (int, float), "a number")
        if len(value) != count:
            raise self.broken(f"{PREFIX}{key} has {len(value)} entries for {count} tokens")
        return np.asarray(value)  # integers beyond 64 bits: an array of objects

    def _list_of(self, key: str, value: object, types: tuple[type, ...], wanted: str) -> list[Any]:
        if isinstance(value, Strings):
            value = [value[index] for index in range(len(value))]
        elif hasattr(value, "tolist"):
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            raise self._wrong_type(key, value, "an array")
        if not set(map(type, value)).issubset(types):  # exact types: a bool is no number
            index = next(index for index, element in enumerate(value) if type(element) not in types)
            raise self._wrong_type(f"{key}[{index}]", value[index], wanted)
        return list(value)

    def _wrong_type(self, key: str, value: object, wanted: str) -> ModelFormatError:
        return self.broken(f"{PREFIX}{key} is {value!r:.80}, not {wanted}")
