"""Kernel signatures: which argument is a buffer, threadgroup memory or a position, and at which index."""

from __future__ import annotations

from dataclasses import dataclass, field

from .items import Item, attributes
from .lexer import Token, match_bracket, split_commas

# The attribute of a parameter, and its name in runtime/launch.h.
BUILT_IN = {
    "thread_position_in_grid",
    "threadgroup_position_in_grid",
    "thread_position_in_threadgroup",
    "thread_index_in_threadgroup",
    "thread_index_in_simdgroup",
    "simdgroup_index_in_threadgroup",
    "threads_per_threadgroup",
    "dispatch_threads_per_threadgroup",
    "threadgroups_per_grid",
    "threads_per_grid",
    "simdgroups_per_threadgroup",
    "threads_per_simdgroup",
    "thread_execution_width",
    "quadgroup_index_in_threadgroup",
    "thread_index_in_quadgroup",
}
_MAX_BUFFER, _MAX_THREADGROUP = 30, 30


@dataclass
class Parameter:
    source: str  # buffer, threadgroup or a name of BUILT_IN
    index: int = 0
    optional: bool = False  # there only where a function constant says so
    writable: bool = False  # a device buffer whose element type is not const


@dataclass
class Kernel:
    name: str
    parameters: list[Parameter]
    is_template: bool
    max_threads: int = 0  # max_total_threads_per_threadgroup; 0: not said
    entries: list[tuple[str, str]] = field(default_factory=list)  # (host name, C++ expression of the function)


def read_kernel(tokens: list[Token], item: Item) -> Kernel:
    """Reads the signature and takes the attributes, which C++ does not know, out of the text."""
    tokens_of = tokens[item.start : item.name_at]
    if not any(token.text == "void" for token in tokens_of):
        raise tokens[item.name_at].error(f"kernel {item.name} must return void")
    kernel = Kernel(item.name, [], item.template[0] >= 0)
    for start, end in item.attributes:
        if start < item.params[0] or start >= item.params[1]:
            _kernel_attribute(tokens, kernel, start, end)
    for start, end in split_commas(tokens, *item.params):
        kernel.parameters.append(_parameter(tokens, item, start, end))
    for kind, limit in (("buffer", _MAX_BUFFER), ("threadgroup", _MAX_THREADGROUP)):
        indices = [p.index for p in kernel.parameters if p.source == kind]
        if len(set(indices)) != len(indices):
            raise tokens[item.name_at].error(f"kernel {item.name}: two arguments with one {kind} index")
        if any(index > limit for index in indices):
            raise tokens[item.name_at].error(f"kernel {item.name}: {kind} index over {limit}")
    return kernel


def blank(tokens: list[Token], start: int, end: int) -> None:
    for token in tokens[start:end]:
        token.out = ""


def _kernel_attribute(tokens: list[Token], kernel: Kernel, start: int, end: int) -> None:
    name = tokens[start].text
    if name == "max_total_threads_per_threadgroup":
        kernel.max_threads = _integer(tokens, start + 2)
    elif name != "kernel":
        raise tokens[start].error(f"attribute {name} is not understood")
    blank(tokens, start - 2, end + 2)


def _integer(tokens: list[Token], at: int) -> int:
    try:
        return int(tokens[at].text, 0)
    except ValueError:
        raise tokens[at].error(f"an integer literal was expected, not {tokens[at].text}") from None


def _parameter(tokens: list[Token], item: Item, start: int, end: int) -> Parameter:
    found: Parameter | None = None
    optional = False
    for first, last in attributes(tokens, start, end):
        for begin, stop in split_commas(tokens, first, last):
            name = tokens[begin].text
            if name in ("buffer", "threadgroup") and stop == begin + 4:
                found = _place(tokens, item, found, Parameter(name, _integer(tokens, begin + 2)), begin)
            elif name in BUILT_IN and stop == begin + 1:
                found = _place(tokens, item, found, Parameter(name), begin)
            elif name == "function_constant":
                optional = True
            else:
                raise tokens[begin].error(f"kernel {item.name}: attribute {name} is not understood")
        blank(tokens, first - 2, last + 2)
    if found is None:
        raise tokens[start].error(f"kernel {item.name}: an argument without its attribute")
    found.optional = optional
    words = [token.text for token in tokens[start:end]]
    _check_space(tokens, item, found, words, start)
    if found.source == "buffer":
        found.writable = "device" in words and "const" not in words
    return found


def _place(tokens: list[Token], item: Item, old: Parameter | None, new: Parameter, at: int) -> Parameter:
    if old is not None:
        raise tokens[at].error(f"kernel {item.name}: an argument with two sources")
    return new


def _check_space(tokens: list[Token], item: Item, found: Parameter, words: list[str], at: int) -> None:
    indirect = "*" in words or "&" in words
    spaces = {"buffer": ("device", "constant"), "threadgroup": ("threadgroup",)}.get(found.source, ())
    if spaces and not (indirect and any(space in words for space in spaces)):
        raise tokens[at].error(f"kernel {item.name}: a {found.source} argument must point to {' or '.join(spaces)}")
    if not spaces and indirect:
        raise tokens[at].error(f"kernel {item.name}: {found.source} is a value, not a pointer")


def read_instantiation(tokens: list[Token], item: Item, kernels: dict[str, Kernel]) -> None:
    """``template [[host_name("n")]] [[kernel]] T f<A, B>;`` or with the parameters repeated."""
    host_name = ""
    for start, end in item.attributes:
        name = tokens[start].text
        if name == "host_name":
            host_name = "".join(token.text[1:-1] for token in tokens[start + 2 : end - 1])
        elif name != "kernel" and name not in BUILT_IN and name not in ("buffer", "threadgroup"):
            raise tokens[start].error(f"attribute {name} is not understood")
        blank(tokens, start - 2, end + 2)
    if not host_name.isidentifier():
        raise tokens[item.start].error("an explicit instantiation needs host_name(\"...\"), an identifier")
    i, found = item.start, None
    while i < item.end:
        if tokens[i].text == "decltype":
            i = match_bracket(tokens, i + 1)
        elif tokens[i].text == "(":
            i = match_bracket(tokens, i)
        elif tokens[i].text in kernels and tokens[i + 1].text == "<":
            found, i = (i, match_bracket(tokens, i + 1)), match_bracket(tokens, i + 1)
        i += 1
    if found is None:
        raise tokens[item.start].error(f"host_name {host_name}: no kernel template is named here")
    expression = "".join(f"{token} " for token in tokens[found[0] : found[1] + 1] if str(token))
    kernels[tokens[found[0]].text].entries.append((host_name, expression.strip()))
