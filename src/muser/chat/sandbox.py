"""The environment in which a chat template runs: what transformers gives a template, no way to the host, and an
account of everything it does (see ``limits``). One instance serves one rendering.
"""

from __future__ import annotations

import datetime
import json
import re
import types
from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Any

from jinja2 import ext, nodes, pass_context
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro, markup_join, str_join
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace

from ..errors import TemplateError
from . import operations
from .compiler import CountingGenerator
from .limits import Limits

_CALL = 20  # steps: a call costs some microseconds
_FORMAT = re.compile(r"\d{5}|\*|\{[^{}]*\{")  # a width beyond 9,999, or one that comes from an argument
_BUILTINS = (str, list, tuple, dict, range, int, float, bytes, type(None), set, frozenset, complex)


class Sandbox(ImmutableSandboxedEnvironment):
    """``marked``, where given, rewrites the parsed template before it is compiled."""

    code_generator_class = CountingGenerator
    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(
        self,
        limits: Limits,
        *,
        now: datetime.datetime | None = None,
        rewrite: Callable[[nodes.Template], None] | None = None,
    ) -> None:
        self.limits = limits
        self.step = limits.step
        self._now = now
        self._rewrite = rewrite
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # the optimizer would run filters while it compiles
            finalize=_finalize,
            extensions=[_Generation, ext.loopcontrols],
            cache_size=0,
        )
        filters: dict[str, Any] = {**self.filters, "tojson": _tojson}
        tests: dict[str, Any] = dict(self.tests)
        self.filters = {name: self._counted(filters[name], check) for name, check in operations.FILTERS.items()}
        self.tests = {name: self._counted(test, operations.TESTS.get(name)) for name, test in tests.items()}
        self.globals.pop("lipsum")
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = self._strftime_now
        self.globals["dict"] = _Dict()
        self.globals["namespace"] = _Namespace

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = super()._parse(source, name, filename)
        if self._rewrite is not None:
            self._rewrite(template)
        return template

    # -- what compiled code calls ----------------------------------------------------------------------------

    def joined(self, context: Context, parts: tuple[Any, ...]) -> str:
        """``a ~ b``; the parts are paid for."""
        return markup_join(parts) if context.eval_ctx.autoescape else str_join(parts)

    def sliced(self, value: Any, start: Any, stop: Any, step: Any) -> Any:
        """``value[start:stop:step]``."""
        return self.limits.keep(value[start:stop:step])

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        operations.check_operator(self.limits, operator, left, right)
        return self.limits.keep(super().call_binop(context, operator, left, right))

    def getitem(self, obj: Any, argument: Any) -> Any:
        if type(argument) is tuple:
            self.limits.read(argument)  # to hash it
        return super().getitem(obj, argument)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        spec = value.__self__

        def checked(*args: Any, **kwargs: Any) -> str:
            check_format(self.limits, spec)
            self.limits.copy(self.limits._walk([args, kwargs], 0) * (1 + spec.count("{")))  # each field may print all
            return wrapped(*args, **kwargs)

        return checked

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: PYI063
        limits = __self.limits
        if __obj == __self.step:
            return limits.step(*args)
        limits.step(_CALL + len(args) + len(kwargs))
        if not isinstance(__obj, Macro):  # which pays for what it does with them
            args = tuple(list(__self._drawn(arg)) if isinstance(arg, Iterator) else arg for arg in args)
            for argument in (*args, *(value for name, value in kwargs.items() if not name.startswith("_"))):
                limits.read(argument)  # except the frames that jinja2 hands over
        owner = getattr(__obj, "__self__", None)
        if isinstance(__obj, (types.BuiltinMethodType, types.MethodType)) and isinstance(owner, _BUILTINS):
            operations.check_method(limits, owner, __obj.__name__, args, kwargs)
        elif isinstance(__obj, type) and __obj not in (_Namespace, Cycler, Joiner):
            raise SecurityError(f"{__obj!r} is not safely callable")
        return limits.keep(super().call(__context, __obj, *args, **kwargs))

    # -- filters, tests, globals -----------------------------------------------------------------------------

    def _counted(
        self, function: Callable[..., Any], check: Callable[..., tuple[Any, ...]] | None
    ) -> Callable[..., Any]:
        limits = self.limits
        leading = 1 if hasattr(function, "jinja_pass_arg") else 0  # the context or environment comes first

        def counted(*args: Any, **kwargs: Any) -> Any:
            limits.step(_CALL // 2 + len(args) + len(kwargs))
            if len(args) > leading and isinstance(args[leading], Iterator):
                args = (*args[:leading], self._drawn(args[leading]), *args[leading + 1 :])
            if check is not None:
                args = args[:leading] + check(limits, *args[leading:], **kwargs)
            result = function(*args, **kwargs)
            if isinstance(result, Iterator):
                return self._drawn(result)
            return limits.keep(result)

        return update_wrapper(counted, function)

    def _drawn(self, generator: Any) -> Any:
        for element in generator:
            self.limits.step(2)
            yield element

    def _strftime_now(self, format: str) -> str:
        if not isinstance(format, str) or len(format) > 1000:
            raise TemplateRuntimeError("strftime_now takes a format of at most 1000 characters")
        return (self._now or datetime.datetime.now()).strftime(format)


@pass_context  # it keeps jinja2 from printing literals while it compiles
def _finalize(context: Context, value: Any) -> Any:
    environment = context.environment
    assert isinstance(environment, Sandbox)
    return environment.limits.print(value)


def _raise_exception(message: Any) -> None:
    raise TemplateError(f"the chat template refuses: {str(message)[:1000]}")


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    # Jinja's own escapes HTML; a model is no browser.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def check_format(limits: Limits, spec: str) -> None:
    """Refuses a format that could pad to any length."""
    limits.copy(len(spec) * 2)
    if _FORMAT.search(spec):
        raise TemplateError("the chat template formats with a width beyond 9,999")


class _Dict:
    """``dict(...)`` without the attributes of a class."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, keys: Any, value: Any = None) -> dict[Any, Any]:
        return dict.fromkeys(keys, value)


class _Namespace(Namespace):
    """Refuses names with an underscore in front, which could shadow what the interpreter looks up."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # a template may set "self"
        this, values = args[0], dict(*args[1:], **kwargs)
        for name in values:
            _check_name(name)
        Namespace.__init__(this, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        Namespace.__setitem__(self, name, value)


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace takes no attribute {name[:80]!r}")


class _Generation(ext.Extension):
    """``{% generation %}...{% endgeneration %}`` marks the assistant's text for training; here it is its content."""

    tags = frozenset(("generation",))  # type: ignore[assignment]

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
