"""What can go wrong when a shape is read or written."""

from __future__ import annotations

from pathlib import Path


class ShapeError(ValueError):
    """A shape that does not exist, or that no file can have."""


class NoSpaceError(OSError):
    """The disk has no room for the file. Nothing of it is left there."""

    def __init__(self, folder: Path, needed: int, available: int) -> None:
        super().__init__(
            f"the file needs {needed / 1e9:.2f} GB, and {folder} has {available / 1e9:.2f} GB free"
        )
        self.folder, self.needed, self.available = folder, needed, available
