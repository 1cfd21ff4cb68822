"""Writes src/muser/_muser.pyi from the built extension: python tools/make_stubs.py

Run it after a change of the bindings; tests/test_stubs.py compares the file with what this would write.
"""

from __future__ import annotations

import re
from pathlib import Path

STUB = Path(__file__).resolve().parent.parent / "src" / "muser" / "_muser.pyi"


def make_stub() -> str:
    from nanobind.stubgen import StubGen

    from muser import _muser

    generator = StubGen(_muser, recursive=False, include_docstrings=False)
    generator.put(_muser)
    text = generator.get()
    text = re.sub(r"^from muser\._muser import testing.*\n", "", text, flags=re.MULTILINE)  # not for users
    # The bindings return plain containers; what is in them is documented in the Python classes.
    text = re.sub(r"\blist(?=[:,)\]]| =)", "list[Any]", text)
    text = re.sub(r"\btuple(?=[:,)\]]| =)", "tuple[Any, ...]", text)
    text = re.sub(r"\bdict(?=[:,)\]]| =)", "dict[str, Any]", text)
    return "from typing import Any\n" + text


if __name__ == "__main__":
    STUB.write_text(make_stub())
