"""Unmodified .metal source to C++ for clang: preprocess, cut into tokens, understand each declaration, rewrite.

Whatever is not understood is an error with file and line: a construct that slipped through would run as something
else. ``translate`` is the whole interface.
"""

from .errors import MetalSyntaxError
from .program import Target, translate

__all__ = ["MetalSyntaxError", "Target", "translate"]
