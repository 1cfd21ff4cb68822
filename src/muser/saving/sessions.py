"""``Session.save`` and ``restore``: the slot's rows and, on request, the sampler that goes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from muser.errors import ParameterError, SessionFileError
from muser.saving import container, identity

if TYPE_CHECKING:
    from muser._core import Core
    from muser._native import NativeEngine
    from muser.sampler import Sampler


def save(
    core: Core, engine: NativeEngine, slot: int, path: str, key: bytes | None, sampler: Sampler | None
) -> None:
    blobs: dict[str, memoryview | bytes] = {"session": engine.snapshot(slot).data}
    if sampler is not None:
        blobs["sampler"] = sampler.state()
    container.write(path, {"model": identity.of_model(core), "kind": "session"}, blobs, key)


def restore(
    core: Core, engine: NativeEngine, slot: int, path: str, key: bytes | None, sampler: Sampler | None
) -> None:
    """All or nothing."""
    _, blobs = read(core, path, key, "session")
    if (sampler is None) != ("sampler" not in blobs):
        raise SessionFileError(
            f"{path}: was saved {'without' if sampler is not None else 'with'} a sampler", path=path
        )
    before = sampler.state() if sampler is not None else b""
    try:
        if sampler is not None:
            sampler.restore(blobs["sampler"].tobytes())
        engine.restore(slot, np.frombuffer(blobs["session"], np.uint8))
    except BaseException as error:
        if sampler is not None:
            sampler.restore(before)
        if isinstance(error, ParameterError):
            raise SessionFileError(f"{path}: {error}", path=path) from None
        raise


def read(core: Core, path: str, key: bytes | None, *kinds: str) -> tuple[dict[str, Any], dict[str, memoryview]]:
    record, blobs = container.read(path, key)
    kind = record.get("kind")
    if kind not in kinds:
        raise SessionFileError(f"{path}: holds a {kind!r}, not a {' or '.join(map(repr, kinds))}", path=path)
    expected = identity.of_model(core) if kind == "session" else identity.of_generations(core)
    identity.check(expected, record.get("model"), path)
    if "session" not in blobs:
        raise SessionFileError(f"{path}: holds no session", path=path)
    return record, blobs
