"""At interpreter exit, models close while other threads can still hear of it.

A daemon thread inside a native call would otherwise be unwound by the finalizing interpreter in the middle of C++
code, which aborts the process. Registered with the first model, not at import.

All threads that are left then are daemons, which Python ends without a word wherever they are. The ClosedError that ends
one here is no news either.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from muser.errors import ClosedError

if TYPE_CHECKING:
    from muser.model import Model

LONGEST_WAIT_SECONDS = 5.0  # for the pass in progress

_open: weakref.WeakSet[Model] = weakref.WeakSet()
_registered_in: int | None = None


def close_at_exit(model: Model) -> None:
    """Remember ``model`` for as long as it lives."""
    global _registered_in
    _open.add(model)
    if _registered_in != os.getpid():
        _registered_in = os.getpid()
        atexit.register(_close_all, _registered_in)


def _close_all(pid: int) -> None:
    if os.getpid() != pid:  # a forked child: the threads and their locks stayed with the parent
        return
    from muser import _muser

    threading.excepthook = _but_closed(threading.excepthook)
    for model in list(_open):
        if model._core.in_this_process:
            model.close()
    _muser.end_all_calls(LONGEST_WAIT_SECONDS)


def _but_closed(report: Callable[[threading.ExceptHookArgs], object]) -> Callable[[threading.ExceptHookArgs], object]:
    def hook(args: threading.ExceptHookArgs) -> None:
        if not issubclass(args.exc_type, ClosedError):
            report(args)

    return hook
