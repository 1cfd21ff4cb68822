"""Faults planted in text: one replacement in a copy of a file, and what must find it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    old: str
    new: str
    finds: str  # a regular expression of the finding; "numbers": wrong results are the finding
    which: int = 1  # occurrence of ``old``
    also: tuple[tuple[str, str], ...] = ()  # more replacements, where a fault needs two places

    def apply(self, text: str) -> str:
        parts = text.split(self.old)
        assert len(parts) > self.which, f"{self.name}: {self.old!r} occurs {len(parts) - 1} times"
        changed = self.old.join(parts[: self.which]) + self.new + self.old.join(parts[self.which :])
        for old, new in self.also:
            assert old in changed, f"{self.name}: {old!r} does not occur"
            changed = changed.replace(old, new, 1)
        return changed

    def write(self, source: Path, folder: Path) -> Path:
        """A copy of ``source`` with the fault, beside copies of its neighbours' headers."""
        for header in source.parent.glob("*.h"):
            (folder / header.name).write_text(header.read_text())
        path = folder / source.name
        path.write_text(self.apply(source.read_text()))
        return path
