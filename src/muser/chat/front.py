"""The methods of ``Model`` that chat. Nothing here runs anything: a request is checked, and a stream made of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from typing_extensions import Unpack

from muser import _checks as checks
from muser._core import Core
from muser._watch import READER_GRACE_SECONDS, ReaderWatch
from muser._workers import Workers
from muser.choices import MAX_CHOICES, Choices, seeded
from muser.generation import Generation
from muser.params import SamplingOverrides, SamplingParams, merged
from muser.pool import SlotPool
from muser.session import Session
from muser.stream import run_to_end

from .parts import ChatCompletion
from .stream import ChatStream

if TYPE_CHECKING:
    from .astream import AsyncChatStream
    from .generation import ChatGeneration
    from .request import ChatPrompt, ChatRequest, Templates

Messages = Sequence[Mapping[str, Any]]
Level = Literal["low", "medium", "high", "xhigh"]


class ChatFront:
    """A base of ``Model``, which has the core and the slots."""

    _core: Core
    _chat_templates: Templates | None = None
    slots: SlotPool

    _watch: ReaderWatch

    def _threads(self) -> Workers:
        raise NotImplementedError

    def _source(self, generation: Generation, timeout: float | None) -> Callable[[], Session]:
        raise NotImplementedError

    def chat(
        self,
        messages: Messages,
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        reasoning: Level | None = None,
        thinking_budget: int | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **overrides: Unpack[SamplingOverrides],
    ) -> ChatCompletion:
        """Answers the last message of a conversation.

        Args:
            messages: dicts with ``role`` and ``content``, as OpenAI's; see docs/chat.md. ``reply.message`` is the
                answer as one.
            params: as for :meth:`generate`. ``stop`` is looked for in the answer alone; ``echo`` must be off.
            tools: what the model may call, as OpenAI's: JSON schemas. ``reply.tool_calls`` are its calls.
            reasoning: how much a model with levels (Muse Glimmer) thinks. None: as its template says.
            thinking_budget: tokens of reasoning after which it is ended and the answer begins. 0: no reasoning.
            chat_template: the name of another template in the file, or Jinja source. None: the file's main one, or
                its "tool_use" where there are tools.
            chat_template_kwargs: variables for the template, such as ``{"enable_thinking": False}``.
            timeout: seconds to wait for a free slot.

        Text in messages is text: it never becomes a control token.

        Raises:
            ParameterError: ``.parameter`` "messages" or "tools", ``.index`` and ``.field`` say where.
            TemplateError: the file has no template, or a broken one, or it refuses these messages.
            Otherwise as :meth:`generate`.
        """
        limit = checks.timeout(timeout)
        generation = self._chat_generation(
            merged(params, overrides), messages, tools=tools, reasoning=reasoning, thinking_budget=thinking_budget,
            chat_template=chat_template, chat_template_kwargs=chat_template_kwargs,
        )  # fmt: skip
        return cast(ChatCompletion, run_to_end(ChatStream(generation, self._source(generation, limit))))

    def chat_stream(
        self,
        messages: Messages,
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        reasoning: Level | None = None,
        thinking_budget: int | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        reader_grace: float = READER_GRACE_SECONDS,
        **overrides: Unpack[SamplingOverrides],
    ) -> ChatStream:
        """The same, piece by piece: a chunk's ``parts`` are pieces of reasoning, of the answer and of tool calls;
        its ``text`` is the answer's. The rest is as for :meth:`stream`."""
        limit, grace = checks.timeout(timeout), checks.grace(reader_grace)
        generation = self._chat_generation(
            merged(params, overrides), messages, tools=tools, reasoning=reasoning, thinking_budget=thinking_budget,
            chat_template=chat_template, chat_template_kwargs=chat_template_kwargs,
        )  # fmt: skip
        return ChatStream(generation, self._source(generation, limit), watch=self._watch, grace=grace)

    async def achat(
        self,
        messages: Messages,
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        reasoning: Level | None = None,
        thinking_budget: int | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **overrides: Unpack[SamplingOverrides],
    ) -> ChatCompletion:
        """:meth:`chat` for coroutines. Waiting holds no thread; cancelling the task frees the slot."""
        from muser import aio  # with asyncio behind it: not at import

        limit = checks.timeout(timeout)
        make = functools.partial(
            self._chat_generation, merged(params, overrides), messages, tools=tools, reasoning=reasoning,
            thinking_budget=thinking_budget, chat_template=chat_template, chat_template_kwargs=chat_template_kwargs,
        )  # fmt: skip
        return cast(ChatCompletion, await aio.complete(make, self.slots, self._threads(), limit))

    def achat_stream(
        self,
        messages: Messages,
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        reasoning: Level | None = None,
        thinking_budget: int | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        reader_grace: float = READER_GRACE_SECONDS,
        **overrides: Unpack[SamplingOverrides],
    ) -> AsyncChatStream:
        """:meth:`chat_stream` for coroutines. Sampling parameters are checked here, everything else at the first item and
        away from the event loop: a conversation may be long."""
        from .astream import AsyncChatStream

        limit, grace = checks.timeout(timeout), checks.grace(reader_grace)
        make = functools.partial(
            self._chat_generation, merged(params, overrides), messages, tools=tools, reasoning=reasoning,
            thinking_budget=thinking_budget, chat_template=chat_template, chat_template_kwargs=chat_template_kwargs,
        )  # fmt: skip
        return AsyncChatStream(make, self.slots, self._threads(), limit, grace)

    def chat_n(
        self,
        messages: Messages,
        n: int,
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        reasoning: Level | None = None,
        thinking_budget: int | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **overrides: Unpack[SamplingOverrides],
    ) -> tuple[ChatCompletion, ...]:
        """``n`` answers (1..4) to one conversation, which is prefilled once: what n calls of :meth:`chat` with the seeds
        ``seed``, ``seed + 1``, … give. The rest is as for :meth:`generate_n`."""
        limit = checks.timeout(timeout)
        choices = self._chat_choices(
            merged(params, overrides), checks.integer("n", n, 1, MAX_CHOICES), messages, tools=tools, reasoning=reasoning,
            thinking_budget=thinking_budget, chat_template=chat_template, chat_template_kwargs=chat_template_kwargs,
        )  # fmt: skip
        return cast("tuple[ChatCompletion, ...]", choices.complete(limit, self._threads))

    async def achat_n(
        self,
        messages: Messages,
        n: int,
        params: SamplingParams | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        reasoning: Level | None = None,
        thinking_budget: int | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **overrides: Unpack[SamplingOverrides],
    ) -> tuple[ChatCompletion, ...]:
        """:meth:`chat_n` for coroutines. Waiting holds no thread; cancelling the task frees the slots."""
        from muser import aio

        limit = checks.timeout(timeout)
        make = functools.partial(
            self._chat_choices, merged(params, overrides), checks.integer("n", n, 1, MAX_CHOICES), messages, tools=tools,
            reasoning=reasoning, thinking_budget=thinking_budget, chat_template=chat_template,
            chat_template_kwargs=chat_template_kwargs,
        )  # fmt: skip
        return cast("tuple[ChatCompletion, ...]", await aio.complete_n(make, self.slots, self._threads(), limit))

    def chat_prompt(
        self,
        messages: Messages,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        reasoning: Level | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        add_generation_prompt: bool = True,
    ) -> ChatPrompt:
        """What :meth:`chat` gives the model: the text that transformers' ``apply_chat_template`` renders, and its
        token ids. ``add_generation_prompt``: with the beginning of an answer at the end."""
        return self._chat_request(
            messages, tools=tools, reasoning=reasoning, chat_template=chat_template,
            chat_template_kwargs=chat_template_kwargs, add_generation_prompt=add_generation_prompt,
        ).prompt()  # fmt: skip

    def _chat_generation(self, params: SamplingParams, messages: Messages, **options: Any) -> ChatGeneration:
        return self._chat_request(messages, **options).generation(params)

    def _chat_choices(self, params: SamplingParams, n: int, messages: Messages, **options: Any) -> Choices:
        return Choices(self.slots, self._chat_request(messages, **options).generations(seeded(params, n)))

    def _chat_request(self, messages: Messages, **options: Any) -> ChatRequest:
        from .request import ChatRequest, Templates

        if self._chat_templates is None:
            self._chat_templates = Templates()  # a second one by another thread would only compile again
        return ChatRequest(self._core, self._chat_templates, messages, **options)
