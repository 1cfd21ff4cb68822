"""What ``Model.chat_stream`` and ``Model.achat_stream`` return: the streams of a generation, with a chat's types."""

from __future__ import annotations

from typing import cast

from typing_extensions import Self

from ..stream import Stream
from .parts import ChatChunk, ChatCompletion


class ChatStream(Stream):
    """An iterator of :class:`ChatChunk`; afterwards :attr:`completion` is a :class:`ChatCompletion`.

    Everything else is as for :class:`muser.Stream`: dropping or closing it frees the slot.
    """

    @property
    def completion(self) -> ChatCompletion | None:
        """The answer once the stream has ended; after close(), what there was until then. None after an error."""
        return cast("ChatCompletion | None", super().completion)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ChatChunk:
        return cast(ChatChunk, super().__next__())
