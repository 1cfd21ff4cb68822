"""Readers that stay away. A stream is driven by its reader's own thread, which costs no hand-over but leaves the slot
taken when the reader stops between two chunks. So one thread a model, alive only while streams are being read, looks at
the clock of every reader and ends the streams of those who have been away too long.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable

READER_GRACE_SECONDS = 5.0
_LONGEST_SLEEP = 0.5
_SHARE = 8  # looks a grace time


class Away:
    """What a stream and the watch share, so that the watch never keeps a stream alive."""

    __slots__ = ("expire", "grace", "over", "since")

    def __init__(self, grace: float) -> None:
        self.grace = grace
        self.since: float | None = None
        """When the reader took its last chunk; None while it is inside ``next()``."""
        self.over = False
        """There is nothing to end any more."""
        self.expire: weakref.WeakMethod[Callable[[], None]] | None = None

    @property
    def too_long(self) -> bool:
        since = self.since
        return since is not None and time.monotonic() - since >= self.grace


class ReaderWatch:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: list[Away] = []
        self._running = False

    def add(self, reader: Away) -> None:
        with self._lock:
            self._readers.append(reader)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="muser-watch", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._readers = [reader for reader in self._readers if not reader.over]
                readers = list(self._readers)
                if not readers:
                    self._running = False
                    return
            for reader in readers:
                if reader.too_long and reader.expire is not None and (expire := reader.expire()) is not None:
                    expire()
                    del expire
            time.sleep(min(_LONGEST_SLEEP, min(reader.grace for reader in readers) / _SHARE))
