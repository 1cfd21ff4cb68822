"""Every exception that muser raises on purpose. All derive from :class:`MuserError`.

The fields of an error are attributes; an attribute that does not apply to one instance is ``None``.
"""

from __future__ import annotations


class MuserError(Exception):
    """Base of all errors of this library. Keywords set the fields that the class declares."""

    def __init__(self, message: str = "", **fields: object) -> None:
        super().__init__(message)
        for name, value in fields.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
            setattr(self, name, value)


class ModelFormatError(MuserError):
    """The file breaks the GGUF format. ``path`` and ``offset`` (bytes) say where."""

    path: str | None = None
    offset: int | None = None


class UnsupportedModelError(MuserError):
    """A valid file that this version cannot run. The message names what is not supported."""

    path: str | None = None


class UnsupportedDeviceError(MuserError):
    """The asked device does not exist in this build or on this machine; the message says why."""


class FileAccessError(MuserError, OSError):
    """The operating system refused to open or read ``path``.

    ``filename`` (the path again), ``errno`` and ``strerror`` are those of OSError; the last two are None where it
    was muser that refused, such as a pipe.
    """

    path: str | None = None
    # In place of OSError's own, which pickling and a one-argument constructor lose.
    errno: int | None = None
    strerror: str | None = None
    filename: str | None = None


class FileMissingError(FileAccessError, FileNotFoundError):
    """There is no file at ``path``."""


class FetchError(MuserError):
    """A model could not be fetched from the package index, or what came is not what was pinned."""


class OutOfMemoryError(MuserError, MemoryError):
    """The plan needs more bytes (``needed``) than there are (``available``). Nothing was allocated."""

    needed: int | None = None
    available: int | None = None


class ParameterError(MuserError, ValueError):
    """An argument is of a wrong type or outside its documented range. ``parameter`` and ``value`` name it.

    ``index`` is the place of the bad element where the argument is a sequence; ``value`` is that element then.
    ``field`` is the part of that element which is wrong, such as "content" or "tool_calls[0].function.name".
    """

    parameter: str | None = None
    value: object = None
    index: int | None = None
    field: str | None = None


class LogitsError(MuserError):
    """There is no token to sample: only the generation that met this fails.

    The model computed a NaN at ``index``, or -inf everywhere (``index`` is None): the file at ``path`` is damaged.
    Or every token that grammar, mask and logit_bias allow has -inf (``path`` is None).
    """

    path: str | None = None
    index: int | None = None


class GrammarError(MuserError, ValueError):
    """What was given is no grammar: a mistake in its text, a rule without an end, a schema that cannot be kept.

    ``line`` and ``column`` count from 1; None where the mistake has no place in a text.
    """

    line: int | None = None
    column: int | None = None


class GrammarLimitError(GrammarError):
    """Compiling the grammar, or one step of it, takes more work than is allowed. Only its own generation fails."""


class GrammarDeadEndError(MuserError):
    """No token of the model's vocabulary continues the text, and the grammar cannot end there.

    It takes a vocabulary that lacks pieces for what the grammar asks. Only its own generation fails.
    """


class GrammarEngineError(MuserError, ImportError):
    """llguidance, which keeps grammars, is missing, or is of a version whose binary interface muser does not know."""


class ContextFullError(MuserError):
    """The tokens do not fit into the session. ``position`` + what was asked exceeds ``capacity`` (rows)."""

    position: int | None = None
    capacity: int | None = None


class OverloadedError(MuserError):
    """The waiting line is full: ``waiting`` callers of at most ``limit``. Raised at once."""

    waiting: int | None = None
    limit: int | None = None


class WaitTimeoutError(MuserError, TimeoutError):
    """A deadline passed while waiting. Nothing was queued or changed."""


class UnhealthyError(MuserError):
    """The device failed in a way that leaves its state unknown. Close the model and load it again."""

    cause: str | None = None


class DeviceError(MuserError):
    """The device failed one pass; nothing of that pass was installed."""


class CancelledError(MuserError):
    """The session was cancelled by :meth:`Session.cancel`."""


class SessionFileError(MuserError):
    """The file at ``path`` is no whole session file of this version and this model; nothing was changed.

    ``offset`` (bytes) says where, if the mistake has a place.
    """

    path: str | None = None
    offset: int | None = None


class ClosedError(MuserError):
    """The model (or the permit of this session) was closed."""


class ForkedError(MuserError):
    """The model was loaded in process ``pid``; a forked child cannot use it. Load it in the child."""

    pid: int | None = None


class TemplateError(MuserError):
    """The chat template is missing, broken, refuses the messages or takes too long; ``line`` of it, where known."""

    line: int | None = None


class BusyError(MuserError):
    """Two callers drive one session at the same time."""


class InternalError(MuserError):
    """A bug in muser. Please report it with the message."""
