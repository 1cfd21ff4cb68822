"""The chat templates in a GGUF file, as they stand there: nothing is checked before somebody chats."""

from __future__ import annotations

from .._muser import Strings
from .metadata import Metadata

_KEY = "tokenizer.chat_template"


def read_templates(metadata: Metadata) -> dict[str, str]:
    """Name to Jinja source; the file's main template is called "default"."""
    found = {"default": metadata.get(_KEY)}
    names = metadata.get("tokenizer.chat_templates")
    if isinstance(names, Strings):
        names = [names[index] for index in range(len(names))]
    for name in names if isinstance(names, list) else ():
        if isinstance(name, str):
            found[name] = metadata.get(f"{_KEY}.{name}")
    return {name: source for name, source in found.items() if isinstance(source, str)}
