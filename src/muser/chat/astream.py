"""The stream of ``Model.achat_stream``; apart from ``stream`` because it needs asyncio."""

from __future__ import annotations

from typing import cast

from typing_extensions import Self

from ..aio import AsyncStream
from .parts import ChatChunk, ChatCompletion


class AsyncChatStream(AsyncStream):
    """An asynchronous iterator of :class:`ChatChunk`; afterwards :attr:`completion` is a :class:`ChatCompletion`.

    Everything else is as for :class:`muser.AsyncStream`.
    """

    @property
    def completion(self) -> ChatCompletion | None:
        """The answer once the stream has ended; after aclose(), what there was until then. None after an error."""
        return cast("ChatCompletion | None", super().completion)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatChunk:
        return cast(ChatChunk, await super().__anext__())
