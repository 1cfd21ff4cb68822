"""The coroutine side: the same generations, with no thread held while they wait and the event loop never blocked.

A running generation takes one thread of a small private executor, which makes chunks; a bounded delivery carries
them to the coroutine that reads. A loop that is closed with tasks in it cancels none of them: a generation looks for that
between two tokens.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from muser._uncopied import Uncopied
from muser._watch import READER_GRACE_SECONDS
from muser._workers import Workers
from muser.choices import Choices
from muser.embedding import Embedder
from muser.errors import BusyError, MuserError
from muser.generation import Generation
from muser.pool import SlotPool
from muser.results import Chunk, Completion
from muser.session import Session
from muser.stream import Stream, run_to_end

P = ParamSpec("P")
T = TypeVar("T")

MAX_UNDELIVERED = 64


class AsyncStream(Uncopied):
    """An asynchronous iterator of :class:`Chunk`; afterwards :attr:`completion` holds the whole result.

    Nothing starts before the first item is asked for. At most 64 chunks wait for the reader; a reader that takes
    none for 5 seconds (``reader_grace``) while the buffer is full is cancelled and finds finish_reason "cancelled" after what was
    made until then. Closing or dropping it, or cancelling the task that reads, frees the slot within one step.
    One event loop reads it: the one that took the first item. In another one it ends with BusyError.
    """

    def __init__(
        self,
        make_generation: Callable[[], Generation],
        pool: SlotPool,
        executor: Workers,
        timeout: float | None,
        grace: float = READER_GRACE_SECONDS,
    ) -> None:
        self._grace = grace
        self._make_generation = make_generation
        self._pool = pool
        self._executor = executor
        self._timeout = timeout
        self._delivery: _Delivery | None = None
        self._stream: Stream | None = None
        self._reading = False
        self._ended = False

    @property
    def completion(self) -> Completion | None:
        """The result once the stream has ended; after aclose(), what there was until then. None after an error."""
        return None if self._stream is None else self._stream.completion

    @property
    def seed(self) -> int | None:
        """The effective seed; None before the first item."""
        return None if self._stream is None else self._stream.seed

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Chunk:
        if self._ended:
            raise StopAsyncIteration
        if self._reading:
            raise BusyError("another coroutine is reading this stream")
        self._reading = True
        try:
            if self._delivery is None:
                await self._start()
            assert self._delivery is not None
            self._delivery.check_loop()
            return await self._delivery.get()
        except BaseException:
            self._abandon()
            raise
        finally:
            self._reading = False

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        self._stream = await open_stream(self._make_generation, self._pool, self._executor, self._timeout)
        self._delivery = _Delivery(loop, MAX_UNDELIVERED, self._grace)
        self._executor.submit(_produce, self._stream, self._delivery)

    async def aclose(self) -> None:
        """Ends the generation. Does not wait for the step in progress, which is its last one."""
        self._abandon()

    def _abandon(self) -> None:
        self._ended = True
        if self._delivery is not None:
            self._delivery.abandon()
        if self._stream is not None:
            self._stream.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._abandon()

    def __del__(self) -> None:
        if hasattr(self, "_ended"):
            self._abandon()


async def complete(
    make_generation: Callable[[], Generation], pool: SlotPool, executor: Workers, timeout: float | None
) -> Completion:
    """``Model.agenerate``: the whole generation in one executor call."""
    stream = await open_stream(make_generation, pool, executor, timeout)
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, run_to_end, stream)
    except BaseException:
        stream.close()
        raise


async def open_stream(
    make_generation: Callable[[], Generation], pool: SlotPool, executor: Workers, timeout: float | None
) -> Stream:
    """A stream that has its slot. Tokenizing happens in the executor, waiting happens in the event loop."""
    loop = asyncio.get_running_loop()
    generation = await loop.run_in_executor(executor, make_generation)
    generation.is_abandoned = loop.is_closed
    generation.clock.start()
    if not generation.needs_session:
        return Stream(generation, _no_session)
    return Stream(generation, await pool._lend_async(generation.ids, timeout))


async def complete_n(
    make_choices: Callable[[], Choices], pool: SlotPool, executor: Workers, timeout: float | None
) -> tuple[Completion, ...]:
    """``Model.agenerate_n``: waits in the event loop, then runs in the executor."""
    loop = asyncio.get_running_loop()
    choices = await loop.run_in_executor(executor, make_choices)
    choices.end_if(loop.is_closed)
    if not choices.needs_session:
        return choices.without_session()
    session = await pool._lend_async(choices.ids, timeout)
    return await _run_with(session, executor, choices.cancel, choices.run, executor)


async def embed(
    make_embedder: Callable[[], Embedder], pool: SlotPool, executor: Workers, timeout: float | None
) -> NDArray[np.float32]:
    """``Model.aembed``."""
    embedder = await asyncio.get_running_loop().run_in_executor(executor, make_embedder)
    for index, ids in enumerate(embedder.prompts):
        session = await pool._lend_async(ids, timeout)
        await _run_with(session, executor, session._cancel_quietly, functools.partial(embedder.embed, index))
    return embedder.rows


async def _run_with(
    session: Session, executor: Workers, cancel: Callable[[], None], run: Callable[Concatenate[Session, P], T],
    *args: P.args, **kwargs: P.kwargs,
) -> T:  # fmt: skip
    """``run(session, ...)`` in the executor; it ends the session. If the task is cancelled, so is the call."""
    future = executor.submit(run, session, *args, **kwargs)
    try:
        return await asyncio.wrap_future(future)
    except BaseException:
        cancel()
        if future.cancelled():  # it never began
            session._end()
        raise


def _no_session() -> Session:
    raise MuserError("a generation of no tokens needs no session")


def _produce(stream: Stream, delivery: _Delivery) -> None:
    """In the executor: one terminal event, whatever happens."""
    try:
        for chunk in stream:
            if chunk.finish_reason is not None:
                delivery.end(chunk)
            elif not delivery.put(chunk):
                stream._generation.cancel()  # the next chunk is the last
        delivery.end(StopAsyncIteration())
    except BaseException as error:
        delivery.end(error)


class _Delivery:
    """Chunks on their way from the thread that makes them to the coroutine that reads them. Bounded."""

    def __init__(self, loop: asyncio.AbstractEventLoop, capacity: int, grace: float) -> None:
        self._loop = loop
        self._grace = grace
        # Free places. A SimpleQueue, because its put() is safe from a garbage collection in any thread.
        self._room: SimpleQueue[None] = SimpleQueue()
        for _ in range(capacity):
            self._room.put(None)
        self._items: deque[Chunk | BaseException] = deque()
        self._arrived = asyncio.Event()
        self._abandoned = False

    def put(self, chunk: Chunk) -> bool:
        """False: nobody will read on, or nobody has read anything for the grace time. The chunk is kept."""
        try:
            self._room.get(timeout=self._grace)
            patient = True
        except Empty:
            patient = False
        return self._append(chunk) and patient and not self._abandoned

    def end(self, last: Chunk | BaseException) -> None:
        """Beyond the capacity: what ends a stream always finds room."""
        self._append(last)

    def _append(self, item: Chunk | BaseException) -> bool:
        self._items.append(item)
        try:
            self._loop.call_soon_threadsafe(self._arrived.set)
        except RuntimeError:  # the loop is closed: its coroutines are gone
            return False
        return True

    def check_loop(self) -> None:
        """What wakes the reader belongs to one loop."""
        if asyncio.get_running_loop() is not self._loop:
            raise BusyError("this stream belongs to the event loop that took its first item; another one cannot read it on")

    async def get(self) -> Chunk:
        while not self._items:
            self._arrived.clear()
            await self._arrived.wait()
        item = self._items.popleft()
        if isinstance(item, BaseException):
            raise item
        self._room.put(None)
        return item

    def abandon(self) -> None:
        """Wakes the producer if it waits for room."""
        self._abandoned = True
        self._room.put(None)
