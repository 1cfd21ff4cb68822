"""Writing a model with other weight types: :func:`quantize`. The work is csrc/quantize; docs/quantize.md tells about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from muser import _checks as checks
from muser import _muser

TYPES: tuple[str, ...] = tuple(_muser.quantize_mixes())
"""What ``type`` of :func:`quantize` may be, in the order of their size."""


@dataclass(frozen=True)
class Quantized:
    """What :func:`quantize` wrote."""

    path: str
    nbytes: int
    """Size of the file."""
    tensor_types: Mapping[str, str]
    """Tensor name to type, in the order of the file."""


def quantize(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    type: str = "Q4_K_M",
    *,
    tensor_types: Mapping[str, str] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Quantized:
    """Writes the GGUF model ``source`` to ``target`` with its matrices in other types.

    Any model that muser can read is taken: split ones by their first part, quantized ones are dequantized first
    (which loses twice: prefer F32, F16 or BF16). Metadata stays as it is, but for ``general.file_type`` and
    ``general.quantization_version``. Memory is bounded whatever the size. ``target`` appears when it is whole, in place
    of a file that was there; it must not be ``source``.

    Args:
        type: one of ``muser.quantizing.TYPES``: "Q4_K_M", "Q8_0", "F16", ... Which matrix gets which type under it, and
            what stands in for a type that rows do not fit, is llama.cpp's rule.
        tensor_types: pattern of names of matrices (as in the shell) to tensor type, such as
            ``{"output.weight": "Q8_0", "blk.*.ffn_down.weight": "Q5_K"}``. Of several that match the last one counts.
        threads: None: the cores that this process may use.
        progress: called now and then with the values done and in all; what it raises ends the work.

    Raises:
        ParameterError: ``target`` is ``source``, or there is no such type, or it does not fit a tensor's rows.
        FileAccessError: a file cannot be read or written. Nothing is left of ``target`` then, nor after any other error.
        ModelFormatError: ``source`` is damaged, or holds a weight that the type cannot hold, such as a NaN.
    """
    mix = checks.choice("type", type, TYPES)
    if threads is not None:
        threads = checks.integer("threads", threads, 1, 1024, none=True)
    patterns = _patterns(tensor_types)
    if progress is not None and not callable(progress):
        raise checks.refuse("progress", "must be a callable (done, total) or None", progress)
    source, target = checks.path(source, "source"), checks.path(target, "target")
    file = _muser.GgufFile(source)
    tensors = file.tensors()
    matrices = {i: name for i, (name, _, shape, *_) in enumerate(tensors) if len(shape) > 1}
    types = _overridden(matrices, _muser.quantize_types(file, mix), patterns)
    nbytes = _muser.quantize_file(file, target, mix, types, threads, progress)
    return Quantized(target, nbytes, {name: kind for (name, *_), kind in zip(tensors, types, strict=True)})


def _patterns(tensor_types: object) -> dict[str, str]:
    if tensor_types is None:
        return {}
    if not isinstance(tensor_types, Mapping):
        raise checks.refuse("tensor_types", "must be a mapping of patterns to types, or None", tensor_types)
    for pattern, kind in tensor_types.items():
        if not isinstance(pattern, str):
            raise checks.refuse("tensor_types", "must have patterns that are str", pattern)
        if not isinstance(kind, str) or not kind:
            raise checks.refuse("tensor_types", f"must have a tensor type for {checks.shown(pattern)}", kind)
    return dict(tensor_types)


def _overridden(matrices: Mapping[int, str], types: list[str], patterns: Mapping[str, str]) -> list[str]:
    """``matrices``: place in ``types`` to name. Vectors keep their type: no engine takes quantized ones.

    Raises ParameterError for a pattern that no matrix matches: a typing mistake must not pass in silence.
    """
    found = list(types)
    for pattern, kind in patterns.items():
        matching = [i for i, name in matrices.items() if fnmatchcase(name, pattern)]
        if not matching:
            raise checks.refuse("tensor_types", "must hold patterns that match a matrix", pattern)
        for i in matching:
            found[i] = kind
    return found
