"""The one exception of the translator."""

from __future__ import annotations


class MetalSyntaxError(Exception):
    """Source that the translator does not understand or that Metal does not allow. ``str()`` is FILE:LINE: text."""

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        super().__init__(f"{file}:{line}: {message}" if file else message)
        self.message, self.file, self.line = message, file, line
