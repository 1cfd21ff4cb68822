"""A loaded model: the front door. It owns the engine, the slots and the tokenizer; the work is in the modules beside."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self, Unpack

from muser import _checks as checks
from muser import _muser, planning
from muser._core import Core, Prompt, logger
from muser._exit import close_at_exit
from muser._native import NativeEngine
from muser._uncopied import Uncopied
from muser._watch import READER_GRACE_SECONDS, ReaderWatch
from muser._workers import Workers, make_workers
from muser.chat.front import ChatFront
from muser.choices import MAX_CHOICES, Choices, seeded
from muser.embedding import Embedder
from muser.errors import FileAccessError, MuserError
from muser.generation import Generation
from muser.grammar import Grammar
from muser.params import SamplingOverrides, SamplingParams, merged
from muser.pool import SlotPool
from muser.results import Completion, Health
from muser.saving.front import SavingFront
from muser.saving.identity import of_weights
from muser.session import Permit, Session
from muser.stream import Stream, run_to_end
from muser.text import Tokenizer
from muser.text.metadata import FileMetadata

if TYPE_CHECKING:
    from muser.aio import AsyncStream
    from muser.grammar.constraint import Constraint

CLOSE_GRACE_SECONDS = 10.0
_TINY = "muse-tiny-Q4_K_M.gguf"
_MAX_INT = 2**31 - 1


class Model(ChatFront, SavingFront, Uncopied):
    """One model, and up to four generations side by side. Every method may be called from any thread.

    Make one with :meth:`load` or :meth:`tiny`; :meth:`close` it, or use it as a context manager.
    """

    def __init__(
        self,
        engine: NativeEngine,
        make_tokenizer: Callable[[], Tokenizer],
        *,
        path: str | None = None,
        identity: Mapping[str, Any] | None = None,
        shifts: bool = False,
    ) -> None:
        """For :meth:`load` and for tests."""
        self._core = Core(engine, make_tokenizer, identity, shifts=shifts)
        self._path = path
        self._executor: Workers | None = None
        self._executor_lock = threading.Lock()
        self._watch = ReaderWatch()
        self.slots = SlotPool(self._core)
        close_at_exit(self)

    # -- loading ---------------------------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        *,
        device: str = "auto",
        slots: int = 4,
        context: int | None = None,
        kv_dtype: str = "f16",
        threads: int | None = None,
        context_policy: str = "error",
        prefill_patience: int | None = 16,
        memory_limit: int | None = None,
        prefix_cache_bytes: int | None = None,
    ) -> Self:
        """Loads a GGUF file.

        Args:
            path: the file; of a split model, the first part.
            device: "auto", "cpu" or "metal".
            slots: generations that can be resident at the same time, 1..4.
            context: rows (tokens) that each slot can hold, at least 2: a prompt and an answer. None: the model's own limit, or the most that fits
                into memory; :attr:`context` and :meth:`memory_plan` report the choice.
            kv_dtype: how keys and values are kept: "f16", "f32", or "q8_0", which takes 34 bytes where "f16" takes 64 and
                needs heads of a multiple of 32 values. What each costs in accuracy: docs/accuracy.md.
            threads: compute threads. None: the cores that this process may use.
            context_policy: what a generation does when prompt and completion fill the context. "error": it ends. "shift": it
                goes on without its oldest tokens; takes one more session's memory. See docs/sessions.md.
            prefill_patience: decode turns after which a waiting prefill gets one chunk. None: decode is absolute.
            memory_limit: bytes that the plan may take. None: what the machine has available.
            prefix_cache_bytes: most bytes of keys and values that are kept of conversations which lost their slot, for
                prompts that begin like them. 0: nothing is reused, every prompt is computed whole. None: a quarter of
                what the plan leaves of ``memory_limit``.

        Raises:
            ModelFormatError, UnsupportedModelError, FileAccessError: the file. A missing one is a FileMissingError,
                which is also a FileNotFoundError.
            OutOfMemoryError: the plan does not fit; nothing was allocated.
            ParameterError, UnsupportedDeviceError: an argument.
        """
        name = checks.path(path)
        arguments = planning.checked(
            device, slots, context, kv_dtype, threads, context_policy, memory_limit, prefix_cache_bytes
        )
        patience = planning.optional("prefill_patience", prefill_patience, _MAX_INT)
        file = _muser.GgufFile(name)  # touched when the arguments are known to be right
        # The stubs know less of its arrays.
        engine = cast(NativeEngine, _muser.Engine(file, prefill_patience=patience, **arguments))
        logger.info(
            "loaded %s: %s, %d slots of %d rows, %s keys and values, %s", name, engine.architecture, engine.slots, engine.context,
            kv_dtype, engine.device_description,
        )  # fmt: skip
        identity = {"weights": of_weights(file), "kv_dtype": kv_dtype}
        return cls(engine, functools.partial(_tokenizer_of, file, name), path=name, identity=identity, shifts=arguments["staging"])

    @classmethod
    def tiny(
        cls,
        *,
        device: str = "auto",
        slots: int = 4,
        context: int | None = None,
        kv_dtype: str = "f16",
        threads: int | None = None,
        context_policy: str = "error",
        prefill_patience: int | None = 16,
        memory_limit: int | None = None,
        prefix_cache_bytes: int | None = None,
    ) -> Self:
        """Loads the model inside the package: a Muse of 10 million parameters that writes simple English stories.

        Arguments and errors as in :meth:`load`.
        """
        # Only a package inside a zip needs the file for the duration of this block.
        with resources.as_file(resources.files("muser") / "data" / _TINY) as path:
            return cls.load(
                path,
                device=device,
                slots=slots,
                context=context,
                kv_dtype=kv_dtype,
                threads=threads,
                context_policy=context_policy,
                prefill_patience=prefill_patience,
                memory_limit=memory_limit,
                prefix_cache_bytes=prefix_cache_bytes,
            )

    # -- generating ------------------------------------------------------------------------------------------

    def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        timeout: float | None = None,
        **overrides: Unpack[SamplingOverrides],
    ) -> Completion:
        """Continues a prompt and returns when it is done. Other threads' generations run at the same time.

        Args:
            prompt: text, or token ids. Text gets a BOS if the file asks for one, and is never parsed for control
                tokens; for that, pass ``model.tokenize(text, parse_special=True)``.
            params: how to sample and when to stop; keywords such as ``temperature=0.8`` replace its fields.
            timeout: seconds to wait for a free slot. None: until there is one or the model closes.

        A prompt of at most ``context - 1`` tokens fits; prompt and completion together never exceed the context.
        Where they reach it, finish_reason is "length" and ``context_full`` is True; with ``context_policy="shift"`` it goes on.

        Raises:
            ParameterError: a bad parameter, an id outside the vocabulary, an empty prompt. Before anything runs.
            ContextFullError: the prompt has ``context`` tokens or more.
            OverloadedError: 64 callers wait for a slot already. At once.
            LogitsError: the model computed a NaN: its file is damaged.
            GrammarDeadEndError, GrammarLimitError: the ``grammar`` has no next token.
            WaitTimeoutError, ClosedError, UnhealthyError, DeviceError, ForkedError.
        """
        limit = checks.timeout(timeout)
        generation = self._generation(prompt, merged(params, overrides))
        return run_to_end(Stream(generation, self._source(generation, limit)))

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        timeout: float | None = None,
        reader_grace: float = READER_GRACE_SECONDS,
        **overrides: Unpack[SamplingOverrides],
    ) -> Stream:
        """The same, piece by piece: ``for chunk in model.stream(...): print(chunk.text, end="")``.

        Parameters and prompt are checked here; the wait for a slot begins with the first ``next()``. The
        generation runs in the thread that iterates. Dropping or closing the iterator frees the slot, and so does
        staying away from ``next()`` for ``reader_grace`` seconds: the stream has ended early then, with finish_reason
        "cancelled" in its last chunk.
        """
        limit, grace = checks.timeout(timeout), checks.grace(reader_grace)
        generation = self._generation(prompt, merged(params, overrides))
        return Stream(generation, self._source(generation, limit), watch=self._watch, grace=grace)

    async def agenerate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        timeout: float | None = None,
        **overrides: Unpack[SamplingOverrides],
    ) -> Completion:
        """:meth:`generate` for coroutines. Waiting holds no thread; cancelling the task frees the slot."""
        from muser import aio  # with asyncio behind it: not at import

        limit = checks.timeout(timeout)
        make = functools.partial(self._generation, prompt, merged(params, overrides))
        return await aio.complete(make, self.slots, self._threads(), limit)

    def astream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        timeout: float | None = None,
        reader_grace: float = READER_GRACE_SECONDS,
        **overrides: Unpack[SamplingOverrides],
    ) -> AsyncStream:
        """:meth:`stream` for coroutines: ``async for chunk in model.astream(...)``.

        Parameters are checked here, the prompt at the first item. A reader that takes no chunk for ``reader_grace``
        seconds while 64 wait for it is cancelled: the stream ends early, with finish_reason "cancelled" in its last
        chunk.
        """
        from muser import aio

        limit, grace = checks.timeout(timeout), checks.grace(reader_grace)
        make = functools.partial(self._generation, prompt, merged(params, overrides))
        return aio.AsyncStream(make, self.slots, self._threads(), limit, grace)

    def generate_n(
        self,
        prompt: Prompt,
        n: int,
        params: SamplingParams | None = None,
        *,
        timeout: float | None = None,
        **overrides: Unpack[SamplingOverrides],
    ) -> tuple[Completion, ...]:
        """``n`` answers (1..4) to one prompt, which is prefilled once: what n calls of :meth:`generate` with the seeds
        ``seed``, ``seed + 1``, … give.

        They run side by side over slots that are free and that nobody waits for; with fewer than n of them, one after
        the other. ``timeout``: seconds to wait for the first slot. Arguments and errors otherwise as there; if one
        answer fails, all end.
        """
        limit = checks.timeout(timeout)
        choices = self._choices(prompt, checks.integer("n", n, 1, MAX_CHOICES), merged(params, overrides))
        return choices.complete(limit, self._threads)

    async def agenerate_n(
        self,
        prompt: Prompt,
        n: int,
        params: SamplingParams | None = None,
        *,
        timeout: float | None = None,
        **overrides: Unpack[SamplingOverrides],
    ) -> tuple[Completion, ...]:
        """:meth:`generate_n` for coroutines. Waiting holds no thread; cancelling the task frees the slots."""
        from muser import aio

        limit = checks.timeout(timeout)
        make = functools.partial(self._choices, prompt, checks.integer("n", n, 1, MAX_CHOICES), merged(params, overrides))
        return await aio.complete_n(make, self.slots, self._threads(), limit)

    # -- embedding -------------------------------------------------------------------------------------------

    def embed(
        self, texts: Iterable[Prompt], *, pooling: str = "mean", normalize: bool = True, timeout: float | None = None
    ) -> NDArray[np.float32]:
        """One vector for each text: float32 ``[n, width]``, the hidden states after the final norm, pooled.

        Args:
            texts: texts or token ids, encoded as prompts are (a BOS if the file asks for one). Each has at most
                ``context`` tokens, and takes a slot while it runs.
            pooling: "mean" of all rows, the "last" row, or the first one ("cls").
            normalize: divide by the Euclidean length.
            timeout: seconds that each text waits for a slot.

        Raises ParameterError and ContextFullError before anything runs, and what :meth:`generate` raises.
        """
        limit = checks.timeout(timeout)
        embedder = Embedder(self._core, texts, pooling, normalize)
        for index, ids in enumerate(embedder.prompts):
            embedder.embed(index, self.slots._lend(ids, limit))
        return embedder.rows

    async def aembed(
        self, texts: Iterable[Prompt], *, pooling: str = "mean", normalize: bool = True, timeout: float | None = None
    ) -> NDArray[np.float32]:
        """:meth:`embed` for coroutines."""
        from muser import aio

        make = functools.partial(Embedder, self._core, texts, pooling, normalize)
        return await aio.embed(make, self.slots, self._threads(), checks.timeout(timeout))

    # -- sessions --------------------------------------------------------------------------------------------

    def session(self, *, timeout: float | None = None, prompt: Prompt | None = None) -> Permit:
        """Short for ``model.slots.acquire()``: ``with model.session() as session: session.prefill(...)``.

        ``prompt`` chooses among free slots and does no more: the session is empty. See :meth:`SlotPool.acquire`.
        """
        return self.slots.acquire(timeout=timeout, prompt=prompt)

    def _generation(self, prompt: Prompt, params: SamplingParams) -> Generation:
        return Generation(self._core, prompt, params)

    def _source(self, generation: Generation, timeout: float | None) -> Callable[[], Session]:
        ticket = generation.ticket = self.slots._ticket()
        return functools.partial(self.slots._lend, generation.ids, timeout, ticket)

    def _choices(self, prompt: Prompt, n: int, params: SamplingParams) -> Choices:
        ids = self._core.encode(prompt)
        return Choices(self.slots, [Generation(self._core, ids, each) for each in seeded(params, n)])

    def _threads(self) -> Workers:
        self._core.engine()
        with self._executor_lock:
            if self._executor is None:
                self._executor = make_workers(self._core.slots)
            return self._executor

    # -- text ------------------------------------------------------------------------------------------------

    @property
    def tokenizer(self) -> Tokenizer:
        """Built at first use, from the file's own vocabulary."""
        return self._core.tokenizer

    def tokenize(self, text: str, *, add_bos: bool | None = None, parse_special: bool = False) -> list[int]:
        """Token ids of ``text``. ``add_bos=None``: as the file says. ``parse_special``: control tokens written in
        the text become themselves; leave it off for text that a user typed."""
        return self.tokenizer.encode(text, add_bos=add_bos, parse_special=parse_special)

    def detokenize(self, tokens: Iterable[int], *, skip_special: bool = False) -> str:
        """The text of token ids; ``skip_special`` leaves control tokens out, as ``Completion.text`` does."""
        tokenizer = self.tokenizer
        ids = checks.token_array("tokens", tokens, tokenizer.vocab_size)
        return tokenizer.decode(ids.tolist(), skip_special=skip_special)

    def constraint(self, grammar: Grammar, *, ends: Iterable[int] | None = None) -> Constraint:
        """The state of a grammar, for callers who drive a :class:`Session` themselves; ``generate`` has its own.

        ``session.sample(sampler, constraint.mask())``, then ``constraint.consume(token)``, and so on. ``ends``: the tokens
        that are allowed where the text is complete; None: the model's end tokens. The first call on a model builds what
        grammars need of it (up to a second, see docs/grammar.md): a server makes one when it starts.
        """
        if not isinstance(grammar, Grammar):
            raise checks.refuse("grammar", "must be a muser.Grammar", grammar)
        allowed = self.tokenizer.stop_ids if ends is None else checks.token_array("ends", ends, self._core.vocab).tolist()
        return self._core.grammars.constraint(grammar, allowed)

    # -- looking ---------------------------------------------------------------------------------------------

    @property
    def path(self) -> str | None:
        """The file as it was given to :meth:`load`; bytes that are not UTF-8 as ``os.fsdecode`` writes them."""
        return self._path

    @property
    def architecture(self) -> str:
        """As the file names it: "muse-glimmer", "llama", "qwen2", "qwen3" or "gemma3"."""
        return self._core.engine().architecture

    @property
    def context(self) -> int:
        """Rows (tokens) that every slot can hold."""
        return self._core.context

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary, which is the length of a row of logits."""
        return self._core.vocab

    @property
    def device(self) -> str:
        """The device's name, "cpu" or "metal"."""
        return self._core.engine().device_name

    @property
    def kv_dtype(self) -> str:
        """How keys and values are kept: "f16", "f32" or "q8_0"."""
        return cast(str, self._core.engine().memory_plan()["kv_dtype"])

    def memory_plan(self) -> dict[str, Any]:
        """Every byte that the model takes, by purpose, as it was planned before anything was allocated."""
        return self._core.engine().memory_plan()

    def stats(self) -> dict[str, Any]:
        """Counters since the load, and the state of the line now.

        ``groups_by_width[w - 1]`` passes had w rows. ``rendezvous_*``: how often a pass waited for neighbours, how
        that ended, and for how long. ``*_tokens``, ``*_seconds``: work done while owning the device. ``slots``,
        ``free``, ``waiting``, ``limit``, ``granted``, ``refused``: the line in front of the slots. ``grammar_masks``,
        ``grammar_mask_seconds``: masks of grammars, most of whose time passes while the device works.
        """
        core = self._core
        return {**core.engine().stats(), **core.grammar_stats(), **dataclasses.asdict(self.slots.stats())}

    def health(self) -> Health:
        """Whether the model can work. Never raises, except ForkedError."""
        self._core.check_process()
        if self._core.closed:
            return Health(state="closed")
        try:
            cause = self._core.engine().unhealthy_cause()
        except MuserError:  # closed in between
            return Health(state="closed")
        return Health(state="ok") if cause is None else Health(state="unhealthy", cause=cause)

    # -- closing ---------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Frees everything. Generations in progress end with ClosedError, as does every later call and every wait.

        Returns when the last native call has left, after 10 seconds at most; in a signal handler that interrupted one, at
        once. May be called more than once.
        """
        self._core.check_process()
        engine = self._core.close()
        self.slots._close()
        self._executor = None  # its threads end when their last generation has
        if engine is not None and not engine.close(CLOSE_GRACE_SECONDS):
            logger.warning("close: a native call is still running; the model's memory is freed when it ends")
        self._core.drop()

    def __enter__(self) -> Self:
        self._core.engine()  # a closed model cannot be entered
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._core.closed else f"{self._core.slots} slots of {self._core.context} rows"
        return f"<muser.Model {Path(self._path).name if self._path else 'in memory'}, {state}>"


def _tokenizer_of(file: _muser.GgufFile, path: str) -> Tokenizer:
    """From the file as it was opened: another one may have taken its name since."""
    if file.changed:
        raise FileAccessError(
            f"{path}: the file was written to after the model was loaded, and its vocabulary had not been read yet",
            path=path,
        )
    return Tokenizer(FileMetadata(file), path=path, offsets=file.offsets())
