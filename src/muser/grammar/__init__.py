"""Grammars: text that a model must write. ``grammar`` is the class that callers use; ``gbnf``, ``rules``, ``lark``,
``regex``, ``schema`` read what users write; ``runtime`` belongs to a model, ``constraint`` to a generation;
``backend`` says how the engine behind it is used, ``engine`` is that engine: llguidance through its C API.
"""

from .grammar import Grammar

__all__ = ["Grammar"]
