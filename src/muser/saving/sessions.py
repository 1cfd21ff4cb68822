"""``Session.save`` and ``restore``: the slot's rows and, on request, the sampler that goes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from muser import _chain
from muser import _checks as checks
from muser.errors import ParameterError, SessionFileError
from muser.params import SamplingParams
from muser.saving import container, identity

if TYPE_CHECKING:
    from muser._core import Core
    from muser._native import NativeEngine
    from muser.sampler import Sampler

_NAMES = (*_chain.PLAIN, "dry_sequence_breakers", "seed")


def save(
    core: Core, engine: NativeEngine, slot: int, path: str, key: bytes | None, sampler: Sampler | None
) -> None:
    blobs: dict[str, memoryview | bytes] = {"session": engine.snapshot(slot).data}
    record: dict[str, Any] = {"model": identity.of_model(core), "kind": "session"}
    if sampler is not None:
        blobs["sampler"] = sampler.state()
        record["sampler"] = made_with(sampler)
    container.write(path, record, blobs, key)


def restore(
    core: Core, engine: NativeEngine, slot: int, path: str, key: bytes | None, sampler: Sampler | None
) -> None:
    """All or nothing."""
    record, blobs = read(core, path, key, "session")
    if sampler is not None and "sampler" not in blobs:
        raise SessionFileError(f"{path}: was saved without a sampler", path=path)
    if sampler is None and "sampler" in blobs:
        raise SessionFileError(f"{path}: was saved with a sampler: pass sampler={_call(record)}", path=path)
    before = sampler.state() if sampler is not None else b""
    try:
        if sampler is not None:
            _restore_sampler(sampler, blobs["sampler"].tobytes(), record)
        engine.restore(slot, np.frombuffer(blobs["session"], np.uint8))
    except BaseException as error:
        if sampler is not None:
            sampler.restore(before)
        if isinstance(error, ParameterError):
            raise SessionFileError(f"{path}: {error}", path=path) from None
        raise


def made_with(sampler: Sampler) -> dict[str, Any]:
    """The seed, and the parameters of the chain that are not as by default: what an equal sampler is made with. Functions
    stay with their owner."""
    params = {name: getattr(sampler.params, name) for name in _NAMES}
    changed = {name: value for name, value in params.items() if value != getattr(SamplingParams, name)}
    return {**changed, "seed": sampler.seed}


def _call(record: dict[str, Any]) -> str:
    """How to make the sampler again, for a message. Files of earlier versions do not know."""
    given = record.get("sampler")
    known = {name: value for name, value in given.items() if name in _NAMES} if isinstance(given, dict) else {}
    if "seed" not in known:
        return "a muser.Sampler with the same parameters and seed"
    arguments = [f"{name}={checks.shown(value)}" for name, value in known.items()]
    if "dry_multiplier" in known:
        arguments.append("tokenizer=model.tokenizer")
    return f"muser.Sampler({', '.join(arguments)})"


def _restore_sampler(sampler: Sampler, state: bytes, record: dict[str, Any]) -> None:
    try:
        sampler.restore(state)
    except ParameterError as error:
        raise ParameterError(f"{error}; it was saved with {_call(record)}", parameter=error.parameter) from None


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
