"""What owns a slot, a thread or native memory is one of a kind: a copy would give it back a second time."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex


class Uncopied:
    """Refuses copy.copy, copy.deepcopy and pickle with TypeError."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"a muser {type(self).__name__} cannot be copied or pickled")
