"""What every command prints goes through here: any text, to any stdout, without an encoding error."""

from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from muser.results import Completion


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


def emit_stats(done: Completion) -> None:
    """Tokens, times and the seed in one line on stderr, if there is one."""
    if sys.stderr is not None:
        emit(
            f"{done.usage.prompt_tokens} + {done.usage.completion_tokens} tokens, {done.finish_reason}, "
            f"first after {done.timings.first_token_seconds:.3f} s, "
            f"then {done.timings.tokens_per_second:.1f} tokens/s, seed {done.seed}",
            sys.stderr,
        )
