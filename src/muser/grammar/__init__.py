"""Grammars: text that a model must write. ``grammar`` is the class that callers use; ``gbnf``, ``rules``, ``lark``,
``regex``, ``schema`` read what users write; ``runtime`` belongs to a model, ``constraint`` to a generation;
``backend`` is all that is known of the engine behind it, llguidance.
"""

from .grammar import Grammar

__all__ = ["Grammar"]
