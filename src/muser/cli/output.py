"""What every command prints goes through here: any text, to any stdout, without an encoding error."""

from __future__ import annotations

import errno
import sys
from typing import TextIO


def emit(text: str, stream: TextIO | None = None, end: str = "\n") -> None:
    """Writes a line to ``stream`` (default: stdout); what its encoding lacks is written as ``\\xNN``."""
    if stream is None:
        stream = stdout()
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + end)


def stdout() -> TextIO:
    """sys.stdout; OSError where the process was started with it closed."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "stdout is closed")
    return sys.stdout


def flush() -> None:
    """Whatever was printed arrives now, or raises OSError now."""
    if sys.stdout is not None:
        sys.stdout.flush()


def printable(text: str) -> str:
    """Text from a file with everything that could drive a terminal escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )
