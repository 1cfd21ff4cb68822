"""The whole translation of one file: understand, check, rewrite, and append the table that the runtime launches from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from .constants import DATA_TYPES, FunctionConstants, rewrite_constants
from .items import Item, parse, walk
from .kernels import Kernel, read_instantiation, read_kernel
from .lexer import Token, significant, tokenize
from .lint import lint
from .names import collect
from .rewrite import address_spaces, literals, vector_constructors
from .threadgroup import rewrite_threadgroup


class Target(Enum):
    """What the C++ is for: to run, to be checked with real address spaces, or to become PTX."""

    RUN = "run"
    LINT = "lint"
    PTX = "ptx"


_PLAIN = {"device": "", "constant": "const", "threadgroup": "", "thread": "", "kernel": ""}
_STRICT = {
    "device": "__attribute__((address_space(1)))",
    "constant": "const __attribute__((address_space(2)))",
    "threadgroup": "__attribute__((address_space(3)))",
    "thread": "",
    "kernel": "",
}


@dataclass
class Translation:
    text: str
    kernels: list[Kernel]
    constants: FunctionConstants

    @property
    def host_names(self) -> list[str]:
        return [name for kernel in self.kernels for name, _ in kernel.entries]


def translate(preprocessed: str, file: str, target: Target = Target.RUN) -> Translation:
    """Raises MetalSyntaxError for what it does not understand and for what Metal does not allow."""
    tokens = tokenize(preprocessed, file)
    code = significant(tokens)
    items = list(parse(code))
    names = collect(code, items)
    lint(code, items, names)

    kernels = _read_kernels(code, items)
    literals(code)
    vector_constructors(code, names)
    constants = rewrite_constants(code, items)
    next_id = 1
    for item in walk(items):
        if item.kind in ("function", "kernel"):
            next_id = rewrite_threadgroup(code, item, next_id)
    address_spaces(code, _STRICT if target is Target.LINT else _PLAIN)
    for token, after in pairwise(code):
        if token.text == after.text == "[" and token.out is None and after.out is None:
            raise token.error("attribute not understood")

    body = "".join(str(token) for token in tokens)
    return Translation(f"{body}\n{_epilogue(kernels, constants, target)}", kernels, constants)


def _read_kernels(code: list[Token], items: list[Item]) -> list[Kernel]:
    kernels: dict[str, Kernel] = {}
    for item in walk(items):
        if item.kind == "namespace" and any(inner.kind in ("kernel", "instantiation") for inner in walk(item.inside)):
            raise code[item.start].error("declare kernels outside of namespaces")
    for item in items:
        if item.kind == "kernel":
            if item.name in kernels:
                raise code[item.name_at].error(f"two kernels of the name {item.name}")
            kernels[item.name] = read_kernel(code, item)
            if not kernels[item.name].is_template:
                kernels[item.name].entries.append((item.name, item.name))
        elif item.kind == "instantiation":
            read_instantiation(code, item, kernels)
        elif item.attributes and item.kind not in ("constant",):
            raise code[item.attributes[0][0]].error("attribute not understood")
    seen: set[str] = set()
    for kernel in kernels.values():
        if not kernel.entries:
            raise code[0].error(f"kernel template {kernel.name} has no host_name instantiation")
        for name, _ in kernel.entries:
            if name in seen:
                raise code[0].error(f"two kernels of the host name {name}")
            seen.add(name)
    return list(kernels.values())


def _epilogue(kernels: list[Kernel], constants: FunctionConstants, target: Target) -> str:
    if target is Target.LINT:
        return ""
    lines = ['#include "launch_ptx.h"' if target is Target.PTX else '#include "launch_table.h"']
    for kernel in kernels:
        sources = ", ".join(
            f"{{msl::Source::{p.source}, {p.index}, {str(p.optional).lower()}, {str(p.writable).lower()}}}"
            for p in kernel.parameters
        )
        for name, function in kernel.entries:
            lines.append(f"MSL_KERNEL({name}, {kernel.max_threads}, ({function}), {sources or '{}'})")
    lines.append("MSL_TABLE_BEGIN")
    lines += [f"MSL_TABLE_KERNEL({name})" for kernel in kernels for name, _ in kernel.entries]
    lines.append("MSL_CONSTANTS_BEGIN")
    lines += [f"MSL_TABLE_CONSTANT({name}, {index}, {DATA_TYPES[kind]})" for name, index, kind in constants.declared]
    lines.append("MSL_TABLE_END")
    return "\n".join(lines) + "\n"
