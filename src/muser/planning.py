"""What a model would take of memory, told from the head of its file."""

from __future__ import annotations

import os
from typing import Any

from muser import _checks as checks
from muser import _muser

_MAX_INT = 2**31 - 1
KV_DTYPES = ("f16", "f32", "q8_0")


def memory_plan(
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    *,
    device: str = "auto",
    slots: int = 4,
    context: int | None = None,
    kv_dtype: str = "f16",
    threads: int | None = None,
    context_policy: str = "error",
    memory_limit: int | None = None,
    prefix_cache_bytes: int | None = None,
) -> dict[str, Any]:
    """Every byte that :meth:`Model.load` with these arguments would take, by purpose; nothing is loaded.

    ``total`` is ``weights + slots * kv_per_slot + staging + workspace + retained_logits``; keys and values are
    committed as rows are first written. ``mapped`` (weights that stay in the file) and ``prefix_cache`` (a bound, filled
    as it comes) are not in it. ``ring_rows`` and ``growing_rows`` are rows of one plane of a sliding and of a full layer,
    of ``plane_row_bytes`` in ``kv_dtype``.

    Raises what ``Model.load`` raises for the file and the arguments, OutOfMemoryError with both numbers included.
    """
    name = checks.path(path)
    arguments = checked(
        device, slots, context, kv_dtype, threads, context_policy, memory_limit, prefix_cache_bytes
    )
    plan: dict[str, Any] = _muser.memory_plan(_muser.GgufFile(name), **arguments)
    return plan


def optional(parameter: str, value: int | None, high: int, low: int = 1) -> int | None:
    """An integer in low..high, or None."""
    return None if value is None else checks.integer(parameter, value, low, high, none=True)


def checked(
    device: str,
    slots: int,
    context: int | None,
    kv_dtype: str,
    threads: int | None,
    context_policy: str,
    memory_limit: int | None,
    prefix_cache_bytes: int | None,
) -> dict[str, Any]:
    """The engine's keywords. Raises ParameterError for the first argument that is none."""
    return {
        "device": checks.choice("device", device, ("auto", "cpu", "metal")),
        "slots": checks.integer("slots", slots, 1, 4),
        "context": optional("context", context, _MAX_INT, low=2),
        "kv_dtype": checks.choice("kv_dtype", kv_dtype, KV_DTYPES),
        "threads": optional("threads", threads, 1024),
        "staging": checks.choice("context_policy", context_policy, ("error", "shift")) == "shift",
        "memory_limit": optional("memory_limit", memory_limit, 2**63 - 1),
        "prefix_cache_bytes": optional("prefix_cache_bytes", prefix_cache_bytes, 2**63 - 1, low=0),
    }
