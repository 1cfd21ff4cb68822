"""Checks what no parser sees: rules that do not exist, and rules that no text can ever finish.

Left recursion is no error: the engine is an Earley parser. What has no end is: a model would write for ever.
"""

from __future__ import annotations

from ..errors import GrammarLimitError
from .nodes import Chars, Choice, Literal, Node, Ref, Repeat, Rule, references
from .places import Source

ROOT = "root"
_MAX_PASSES = 60


def check(rules: dict[str, Rule], source: Source) -> list[Rule]:
    """The rules that the root needs, each after what it refers to (but for recursion); the root is the last."""
    if ROOT not in rules:
        raise source.error(f"there is no rule named {ROOT}", len(source.text))
    for rule in rules.values():
        for ref in references(rule.body):
            if ref.name not in rules:
                raise source.error(f"there is no rule named {ref.name}", ref.offset)
    order = _post_order(rules)
    _refuse_endless(order, source)
    return order


def is_recursive(order: list[Rule]) -> bool:
    """Whether a rule needs itself: then one comes before something that it refers to."""
    seen: set[str] = set()
    for rule in order:
        if any(ref.name not in seen for ref in references(rule.body)):
            return True
        seen.add(rule.name)
    return False


def _post_order(rules: dict[str, Rule]) -> list[Rule]:
    order: list[Rule] = []
    entered = {ROOT}
    stack = [(rules[ROOT], iter(references(rules[ROOT].body)))]
    while stack:
        rule, rest = stack[-1]
        for ref in rest:
            if ref.name not in entered:
                entered.add(ref.name)
                below = rules[ref.name]
                stack.append((below, iter(references(below.body))))
                break
        else:
            order.append(rule)
            stack.pop()
    return order


def _refuse_endless(order: list[Rule], source: Source) -> None:
    finite: set[str] = set()
    for _ in range(_MAX_PASSES):
        found = [rule for rule in order if rule.name not in finite]
        for rule in found:
            if _ends(rule.body, finite):
                finite.add(rule.name)
        if all(rule.name in finite for rule in order):
            return
        if not any(rule.name in finite for rule in found):
            worst = min(found, key=lambda rule: rule.offset)
            raise source.error(f"the rule {worst.name} never ends: each of its alternatives needs it again", worst.offset)
    raise GrammarLimitError("the grammar's rules are too entangled to be checked")


def _ends(node: Node, finite: set[str]) -> bool:
    """Whether some text matches, if only the rules in ``finite`` have one."""
    if isinstance(node, (Chars, Literal)):
        return True
    if isinstance(node, Ref):
        return node.name in finite
    if isinstance(node, Repeat):
        return node.low == 0 or _ends(node.item, finite)
    if isinstance(node, Choice):
        return any(_ends(option, finite) for option in node.options)
    return all(_ends(item, finite) for item in node.items)
