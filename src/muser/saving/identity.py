"""What a session file must agree on with the model that it is restored into."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from muser.errors import SessionFileError

if TYPE_CHECKING:
    from muser._core import Core
    from muser._muser import GgufFile

_SAMPLE = 64  # bytes


def of_weights(file: GgufFile) -> str:
    """SHA-256 of the tensor table and of the first 64 bytes of every tensor: tells a fine-tuned model from its base
    without reading all of it."""
    sampled: list[bytes] = []
    for (name, kind, shape, _, size), head in zip(file.tensors(), file.tensor_heads(_SAMPLE), strict=True):
        sampled += (repr((name, kind, shape, size)).encode(), head)
    return hashlib.sha256(b"".join(sampled)).hexdigest()


def of_tokenizer(core: Core) -> str:
    """SHA-256 of every token's bytes, in order."""
    tokenizer = core.tokenizer
    digest = hashlib.sha256()
    for token in range(core.vocab):
        piece = tokenizer.token_bytes(token)
        digest.update(len(piece).to_bytes(4, "little") + piece)
    return digest.hexdigest()


def of_model(core: Core) -> dict[str, Any]:
    if core.identity is None:
        core.identity = {
            "architecture": core.engine().architecture,
            **core.file_identity,
            "context": core.context,
            "tokenizer": of_tokenizer(core),
        }
    return core.identity


def of_generations(core: Core) -> dict[str, Any]:
    """A generation depends on what a full context does, too; a session does not."""
    return {**of_model(core), "context_policy": "shift" if core.shifts else "error"}


def check(expected: Mapping[str, Any], found: object, path: str) -> None:
    """Raises SessionFileError that names the first thing that is another one."""
    if not isinstance(found, Mapping):
        raise SessionFileError(f"{path}: does not say which model it is of", path=path)
    for name, value in expected.items():
        if found.get(name) != value:
            raise SessionFileError(
                f"{path}: is of another model: {name} is {found.get(name)!r}, and this model has {value!r}",
                path=path,
            )
