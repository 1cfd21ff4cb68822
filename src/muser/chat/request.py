"""One question to a chat model: everything that the caller gave, checked, and the prompt that comes of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import _checks as checks
from .._core import Core
from ..errors import ParameterError, TemplateError
from ..params import SamplingParams
from .generation import ChatGeneration
from .messages import part_texts, plain_dict, plain_messages, unspelled, with_text
from .protocol import way_of
from .reader import Calls
from .tools import Tools

if TYPE_CHECKING:
    from ..text import Tokenizer
    from .template import ChatTemplate, Rendered

REASONING = ("low", "medium", "high", "xhigh")
_LEVEL_VARIABLES = ("reasoning_strength", "reasoning_effort")
_MOST_TEMPLATES = 16
_MAX_INT = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class ChatPrompt:
    """A conversation as the model gets it."""

    text: str
    """What the chat template makes of it."""

    tokens: tuple[int, ...]
    """The control tokens that the template writes are themselves; what messages say is text."""


class Templates:
    """The chat templates of one model, each compiled once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, ChatTemplate] = {}

    def get(self, source: str, tokenizer: Tokenizer) -> ChatTemplate:
        from .template import ChatTemplate  # with jinja2 behind it: not at import

        with self._lock:
            template = self._known.get(source)
            if template is None:
                if len(self._known) >= _MOST_TEMPLATES:
                    self._known.clear()
                template = ChatTemplate(source, tokenizer.control_parts, tokenizer.token_text)
                self._known[source] = template
            return template


class ChatRequest:
    """Raises ParameterError where it is built; what needs the model's file comes later."""

    def __init__(
        self,
        core: Core,
        templates: Templates,
        messages: object,
        *,
        tools: object = None,
        reasoning: object = None,
        thinking_budget: object = None,
        chat_template: object = None,
        chat_template_kwargs: object = None,
        add_generation_prompt: bool = True,
    ) -> None:
        self._core = core
        self._templates = templates
        self._messages = plain_messages(messages)
        self._tools = None if tools is None else Tools(tools)
        if self._tools is not None and not self._tools.listed:
            self._tools = None
        self._reasoning = None if reasoning is None else checks.choice("reasoning", reasoning, REASONING)
        self._budget: int | None = None
        if thinking_budget is not None:
            self._budget = checks.integer("thinking_budget", thinking_budget, 0, _MAX_INT, none=True)
        if chat_template is not None and not isinstance(chat_template, str):
            raise checks.refuse("chat_template", "must be a str or None", chat_template)
        if chat_template == "":  # from a setting that is not there, perhaps: no reason to take the default
            raise checks.refuse("chat_template", "must be Jinja source, the name of a template, or None", chat_template)
        self._template = chat_template
        self._variables: dict[str, Any] = {"add_generation_prompt": checks.boolean("add_generation_prompt", add_generation_prompt)}
        if chat_template_kwargs is not None:
            if not isinstance(chat_template_kwargs, Mapping):
                raise checks.refuse("chat_template_kwargs", "must be a dict or None", chat_template_kwargs)
            self._variables |= plain_dict("chat_template_kwargs", None, chat_template_kwargs)
        for name in ("messages", "tools"):
            if name in self._variables:
                raise checks.refuse("chat_template_kwargs", f"must not hold {name!r}", chat_template_kwargs)

    def prompt(self) -> ChatPrompt:
        """Raises TemplateError."""
        rendered, tokens, _ = self._rendered()
        return ChatPrompt(text=rendered.text, tokens=tuple(tokens))

    def generation(self, params: SamplingParams) -> ChatGeneration:
        """Raises TemplateError, and what a prompt of token ids can raise."""
        return self.generations([params])[0]

    def generations(self, params: Sequence[SamplingParams]) -> list[ChatGeneration]:
        """One for each of ``params``, which differ in their seeds; the prompt is rendered once. Errors as above."""
        if params[0].echo:
            raise checks.refuse("echo", "must be False in a chat", True)
        rendered, tokens, source = self._rendered()
        before = sum(len(message.get("tool_calls", ())) for message in self._messages)
        tokenizer = self._core.tokenizer
        way = way_of(tokenizer, source, rendered.text)
        if self._budget is not None and not way.thinks:
            raise ParameterError(
                "thinking_budget is given, but this model's chat template knows no reasoning",
                parameter="thinking_budget",
                value=self._budget,
            )
        system = int(self._messages[0]["role"] in ("system", "developer"))
        return [
            ChatGeneration(self._core, tokens, each, way, Calls(self._tools, before), self._budget, keep_turns=system)
            for each in params
        ]

    def _rendered(self) -> tuple[Rendered, list[int], str]:
        tokenizer = self._core.tokenizer
        source = self._source(tokenizer.chat_templates)
        template = self._templates.get(source, tokenizer)
        variables = {"messages": self._messages, "tools": None, "documents": None, **self._variables}
        if self._tools is not None:
            if "tools" not in source:
                raise ParameterError(
                    "tools are given, but this model's chat template knows none, and the model would not see them",
                    parameter="tools",
                    value=self._tools.listed,
                )
            variables["tools"] = self._tools.listed
        if self._reasoning is not None:
            known = [name for name in _LEVEL_VARIABLES if name in template.variables]
            if not known:
                raise ParameterError(
                    "reasoning is given, but this model's chat template has no levels of reasoning",
                    parameter="reasoning",
                    value=self._reasoning,
                )
            variables[known[0]] = self._reasoning
        special = {
            f"{name}_token": token
            for name, token in (("bos", tokenizer.bos_id), ("eos", tokenizer.eos_id), ("pad", tokenizer.pad_id))
            if token is not None
        }
        rendered = self._render(template, variables, special)
        try:
            return rendered, tokenizer.encode_parts(rendered.parts), source
        except ParameterError as error:
            given = {"messages": self._messages, "tools": [] if self._tools is None else self._tools.listed}
            raise unspelled(error, given, source) from None

    def _render(self, template: ChatTemplate, variables: dict[str, Any], special: dict[str, int]) -> Rendered:
        """Templates that know texts only fail at parts and at a call without content, or leave them out."""
        simple = with_text(self._messages)
        if simple == self._messages:
            return template.render(variables, special)
        try:
            rendered = template.render(variables, special)
            if all(text in rendered.text for text in part_texts(self._messages)):
                return rendered
        except TemplateError:
            pass
        return template.render({**variables, "messages": simple}, special)

    def _source(self, templates: Mapping[str, str]) -> str:
        given = self._template
        if given is not None and "{" in given:
            return given
        name = given or ("tool_use" if self._tools is not None and "tool_use" in templates else "default")
        if name in templates:
            return templates[name]
        if given is not None:
            names = ", ".join(map(repr, templates)) or "none"
            raise checks.refuse("chat_template", f"must be Jinja source or a template of the file ({names})", given)
        raise TemplateError("the model file has no chat template; pass one as chat_template")
