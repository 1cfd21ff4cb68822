"""Compiles a template so that all it does is counted, and finds the control tokens in its own text.

Jinja's sandbox keeps a template away from the host's objects but lets it run for ever. The code made here calls
``environment.step`` at the start of every block, and pays for whatever a single expression can copy or search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame

from .operations import words

# Arguments of these only look for something in a text, which is the user's.
_SEARCHES = words(
    "count endswith find index lstrip partition removeprefix removesuffix rfind rindex rpartition rsplit rstrip "
    "split startswith strip"
)
_SEARCH_FILTERS = words("reject rejectattr select selectattr trim")


class CountingGenerator(CodeGenerator):
    """The code of jinja2 with an account: ``environment`` is a :class:`muser.chat.sandbox.Sandbox`."""

    def blockvisit(self, nodes: Iterable[nodes.Node], frame: Frame) -> None:
        block = list(nodes)
        self.writeline(f"environment.step({weight(block)})")
        super().blockvisit(block, frame)

    def visit_For(self, node: nodes.For, frame: Frame) -> None:
        if node.test is not None:  # it runs for elements that the body never sees
            cost = nodes.Const(weight([node.test]))
            tick = nodes.Call(nodes.EnvironmentAttribute("step"), [cost], [], None, None)
            node.test = nodes.And(tick, node.test, lineno=node.lineno)
        super().visit_For(node, frame)

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:
        self.write("(")
        self._paying("read", node.expr, frame)
        for operand in node.ops:
            self.visit(operand, frame)
        self.write(")")

    def visit_Operand(self, node: nodes.Operand, frame: Frame) -> None:
        signs = {"eq": "==", "ne": "!=", "gt": ">", "gteq": ">=", "lt": "<", "lteq": "<=", "in": "in", "notin": "not in"}
        self.write(f" {signs[node.op]} ")
        self._paying("read", node.expr, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.joined(context, (")
        for part in node.nodes:
            self._paying("print", part, frame)
            self.write(", ")
        self.write("))")

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:
        if not isinstance(node.arg, nodes.Slice):
            super().visit_Getitem(node, frame)
            return
        self.write("environment.sliced(")
        self.visit(node.node, frame)
        for bound in (node.arg.start, node.arg.stop, node.arg.step):
            self.write(", ")
            self.write("None") if bound is None else self.visit(bound, frame)
        self.write(")")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:
        self._kept(super().visit_List, node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:
        self._kept(super().visit_Dict, node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:
        if node.ctx == "load":
            self._kept(super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)

    def _kept(self, visit: Callable[[Any, Frame], None], node: nodes.Node, frame: Frame) -> None:
        self.write("environment.limits.nest(")
        visit(node, frame)
        self.write(")")

    def _paying(self, method: str, node: nodes.Node, frame: Frame) -> None:
        self.write(f"environment.limits.{method}(")
        self.visit(node, frame)
        self.write(")")


def weight(block: Iterable[nodes.Node]) -> int:
    """Steps of one run through the block: its nodes, and its literal text."""
    total = 2  # an empty loop costs time too
    stack = list(block)
    while stack:
        node = stack.pop()
        total += 1
        text = getattr(node, "data" if isinstance(node, nodes.TemplateData) else "value", None)
        if isinstance(text, str):
            total += len(text)
        stack.extend(node.iter_child_nodes())
    return total


def mark_literals(template: nodes.Template, mark: Callable[[str], str], variables: dict[str, str]) -> None:
    """Replaces, in place, the text that the template itself writes: ``mark`` gets every literal that can reach the
    output. Literals that are only compared with or searched for stay; there, ``variables`` (name to text) stand
    for what a marked variable would have been."""
    _mark(template, True, mark, variables)


def _mark(node: nodes.Node, live: bool, mark: Callable[[str], str], variables: dict[str, str]) -> None:
    def inside(children: Iterable[nodes.Node | None], live: bool) -> None:
        for child in children:
            if child is not None:
                _mark(child, live, mark, variables)

    if isinstance(node, nodes.TemplateData):
        node.data = mark(node.data)
    elif isinstance(node, nodes.Const):
        if live and isinstance(node.value, str):
            node.value = mark(node.value)
    elif isinstance(node, (nodes.Compare, nodes.Test)):
        _freeze(node, variables)
    elif isinstance(node, nodes.Getitem):
        inside([node.node], live)
    elif isinstance(node, nodes.Pair):
        inside([node.value], live)
    elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
        inside([node.node], live)
        _arguments(node, node.node.attr, _SEARCHES, live, mark, variables)
    elif isinstance(node, nodes.Filter):
        inside([node.node], live)
        _arguments(node, node.name, _SEARCH_FILTERS, live, mark, variables)
    else:
        inside(node.iter_child_nodes(), live)


def _arguments(
    node: nodes.Call | nodes.Filter,
    name: str,
    searches: frozenset[str],
    live: bool,
    mark: Callable[[str], str],
    variables: dict[str, str],
) -> None:
    if name in searches:
        _freeze(node, variables, ("args", "kwargs", "dyn_args", "dyn_kwargs"))
        return
    for place, argument in enumerate([*node.args, *node.kwargs, node.dyn_args, node.dyn_kwargs]):
        if argument is None or (name == "replace" and place == 0):
            continue
        _mark(argument, live, mark, variables)


def _freeze(node: nodes.Node, variables: dict[str, str], only: tuple[str, ...] | None = None) -> None:
    """Below ``node`` (in the fields ``only``), names of marked variables become their text."""
    for field, value in node.iter_fields(only=only):
        if isinstance(value, nodes.Name) and value.name in variables:
            setattr(node, field, nodes.Const(variables[value.name], lineno=value.lineno))
        elif isinstance(value, list):
            for place, item in enumerate(value):
                if isinstance(item, nodes.Name) and item.name in variables:
                    value[place] = nodes.Const(variables[item.name], lineno=item.lineno)
                elif isinstance(item, nodes.Node):
                    _freeze(item, variables)
        elif isinstance(value, nodes.Node):
            _freeze(value, variables)
