"""Lines and columns: where in a text that a user wrote something is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import GrammarError

MAX_LENGTH = 262_144  # characters of a grammar, pattern or schema: what keeps compiling bounded


@dataclass(frozen=True)
class Source:
    """``kind`` names the text in messages: "grammar", "pattern", "schema"."""

    kind: str
    text: str

    def __post_init__(self) -> None:
        if len(self.text) > MAX_LENGTH:
            raise self.error(f"more than {MAX_LENGTH} characters", MAX_LENGTH)
        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            raise self.error("a lone surrogate, which no text has", error.start) from None

    def error(self, message: str, offset: int) -> GrammarError:
        """``offset`` in characters; line and column count from 1."""
        line = self.text.count("\n", 0, offset) + 1
        column = offset - self.text.rfind("\n", 0, offset)
        return GrammarError(f"{self.kind}, line {line}, column {column}: {message}", line=line, column=column)

    def expected(self, what: str, offset: int) -> GrammarError:
        found = "the end" if offset >= len(self.text) else repr(self.text[offset])
        return self.error(f"expected {what}, found {found}", offset)
