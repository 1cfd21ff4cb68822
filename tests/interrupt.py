"""Exceptions of signal handlers, one at a time, at every place where Python may raise them.

Python runs signal handlers after a call and at the start of a function. A profile function is called at just these
places, and what it raises comes out there. Inside a native call it runs them where the call looks for them: that takes a
real signal.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import muser

_HERE = str(Path(muser.__file__).parent) + os.sep
_FILES = {_HERE + name for name in (
    "_core.py", "_queue.py", "_workers.py", "choices.py", "generation.py", "model.py", "pool.py", "session.py", "stream.py",
)}  # those that hold something; the others compute


class Interrupt(BaseException):
    """Stands for KeyboardInterrupt."""


def _raise() -> None:
    raise Interrupt


def _deliver_at(place: int, function: Callable[[], object], act: Callable[[], object]) -> bool:
    """Runs ``function``, and ``act`` at its ``place``-th place in muser's code. False: it has fewer."""
    seen = 0

    def profile(frame, event, _argument):
        nonlocal seen
        if event in ("call", "c_return") and frame.f_code.co_filename in _FILES:
            if frame.f_code.co_name == "__del__":
                return
            seen += 1
            if seen == place:
                sys.setprofile(None)
                act()

    sys.setprofile(profile)
    try:
        function()
    except Interrupt:
        return True
    finally:
        sys.setprofile(None)
    return seen >= place


def every_interrupt(function: Callable[[], object], act: Callable[[], object] = _raise) -> Iterator[int]:
    """Yields after each run of ``function``, of which every one was interrupted at the next place. ``act``: what the signal
    handler does."""
    place = 1
    while _deliver_at(place, function, act):
        yield place
        place += 1
    assert place > 2  # there were some


@contextmanager
def alarm_inside(session: muser.Session, act: Callable[[], object]) -> Iterator[None]:
    """``act()`` once in a signal handler, in the middle of a call of the session."""

    def handler(*_: object) -> None:
        if session._drive.taken:
            act()
        else:
            signal.setitimer(signal.ITIMER_REAL, 0.01)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
