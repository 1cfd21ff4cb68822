"""Several answers to one prompt: ``Model.generate_n`` and ``Model.chat_n``. The prompt is prefilled once; the session that holds it is forked
into slots that nobody waits for, and each of these lanes makes the answer of its own number, then one after the other
until all are made. Lanes never wait for slots, so nothing can deadlock; with one slot the answers come in turn.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait

from muser._workers import Workers
from muser.errors import CancelledError, ParameterError
from muser.generation import Generation
from muser.params import MAX_SEED, SamplingParams
from muser.pool import SlotPool
from muser.results import Completion
from muser.sampler import effective_seed
from muser.session import Session

MAX_CHOICES = 4


def seeded(params: SamplingParams, n: int) -> list[SamplingParams]:
    """Those of each choice: the one with index i has the effective seed ``seed + i`` (modulo 2**64)."""
    seed = effective_seed(params)
    return [dataclasses.replace(params, seed=(seed + i) & MAX_SEED) for i in range(n)]


class Choices:
    """Generations of one prompt, which have not begun."""

    def __init__(self, pool: SlotPool, generations: Sequence[Generation]) -> None:
        self._pool = pool
        self._generations = generations
        self.ids = self._generations[0].ids  # what fits of the prompt
        self._left: Iterator[int] = iter(())  # choices that no lane begins with
        self._session: Session | None = None
        self._cancelled = False
        self._generations[0].clock.start()

    @property
    def needs_session(self) -> bool:
        return self._generations[0].needs_session

    def cancel(self) -> None:
        """From any thread; every lane ends within one chunk or step."""
        self._cancelled = True
        session = self._session
        if session is not None:
            session._cancel_quietly()
        for generation in self._generations:
            generation.cancel()

    def end_if(self, is_abandoned: Callable[[], bool]) -> None:
        """See :class:`Generation`."""
        for generation in self._generations:
            generation.is_abandoned = is_abandoned

    def complete(self, timeout: float | None, workers: Callable[[], Workers]) -> tuple[Completion, ...]:
        """All of them, after waiting for a slot."""
        if not self.needs_session:
            return self.without_session()
        return self.run(self._pool._lend(self.ids, timeout), workers())

    def without_session(self) -> tuple[Completion, ...]:
        for generation in self._generations:
            for _ in generation.chunks(_no_session):
                pass
        return self._completions()

    def run(self, session: Session, workers: Workers) -> tuple[Completion, ...]:
        """All of them; the first lane runs in this thread. Ends the session."""
        sessions = [session]
        lanes: list[Future[None]] = []
        try:
            self._prefill(session)
            self._fork(sessions)
            self._left = iter(range(len(sessions), len(self._generations)))  # its next() is atomic: no lock
            for i, fork in enumerate(sessions[1:], 1):
                lanes.append(workers.submit(self._lane, fork, i))
            self._lane(session, 0)
            wait(lanes)
        except BaseException:  # also a signal handler's, when this thread's own lane has ended and it waits for the others
            self.cancel()
            wait(lanes)
            raise
        finally:
            for each in sessions:
                each._end()
        for lane in lanes:
            lane.result()
        return self._completions()

    def _prefill(self, session: Session) -> None:
        first = self._generations[0]
        first.clock.lap("queue")
        self._session = session
        if self._cancelled:
            raise CancelledError("cancelled while waiting for a slot")
        first.fill(session)
        for generation in self._generations[1:]:
            generation.prompt_scores = first.prompt_scores
        first.clock.lap("prefill")
        self._session = None

    def _fork(self, sessions: list[Session]) -> None:
        """The first session into as many more as there are choices and free slots."""
        while len(sessions) < len(self._generations):
            free = self._pool._lend_if_free(self.ids)
            if free is None:
                break
            sessions.append(free)
            sessions[0].fork(into=free)

    def _lane(self, session: Session, first: int) -> None:
        """In a thread of its own: choices in turn, each from the end of the prompt. The first is fixed: a lane whose thread
        starts late finds its prompt used by nobody, and nobody has computed the last row again in its stead."""
        try:
            for i in itertools.chain((first,), self._left):
                if self._cancelled:
                    break
                generation = self._generations[i]
                self._back_to_prompt(session)
                for _ in generation.chunks(lambda: session, release=False):
                    pass
        except BaseException:
            self.cancel()
            raise
        finally:
            session._end()

    def _back_to_prompt(self, session: Session) -> None:
        """The session as it was after the prefill, or less: a generation prefills what its session lacks. The last row
        runs again for its logits."""
        prompt = self.ids.tolist()
        tokens = session.tokens
        if tokens == prompt and session.logits is not None:
            return
        there = len(prompt) - 1 if tokens[: len(prompt) - 1] == prompt[:-1] else 0  # a full context drops its beginning
        try:
            session.rewind(there)
        except ParameterError:  # the answer before was longer than a sliding window's margin
            session.rewind(0)

    def _completions(self) -> tuple[Completion, ...]:
        completions = [generation.completion for generation in self._generations]
        if any(completion is None for completion in completions):
            raise CancelledError("cancelled")
        return tuple(completion for completion in completions if completion is not None)


def _no_session() -> Session:
    raise AssertionError("a generation of no tokens needs no session")


