"""Other forms of one GGUF file, written with the gguf package: another weight type, or another metadata form.

Everything is exact arithmetic on the stored bits, so the copies are the same on every machine and one
stored file serves for all. Used by the accuracy tests and by the scripts in tools/ that record what the
copies should give.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np

Tensors = dict[str, tuple[np.ndarray, gguf.GGMLQuantizationType]]
Metadata = dict[str, tuple[object, gguf.GGUFValueType, gguf.GGUFValueType | None]]


def read(path: Path) -> tuple[Metadata, Tensors]:
    """Metadata as {key: (value, type, element type)} and tensors as {name: (data as stored, type)}."""
    reader = gguf.GGUFReader(str(path))
    metadata: Metadata = {}
    for key, field in reader.fields.items():
        if not key.startswith("GGUF."):
            element = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            metadata[key] = (field.contents(), field.types[0], element)
    return metadata, {t.name: (t.data, t.tensor_type) for t in reader.tensors}


def write(path: Path, metadata: Metadata, tensors: Tensors) -> None:
    writer = gguf.GGUFWriter(str(path), str(metadata["general.architecture"][0]))
    for key, (value, kind, element) in metadata.items():
        if key != "general.architecture":
            writer.add_key_value(key, value, kind, element)
    for name, (data, kind) in tensors.items():
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def with_weights(source: Path, target: Path, kind: str) -> Path:
    """A copy whose matrices have another type that the gguf package can write: "F32", "F16", "BF16" or
    "Q8_0"."""
    to = gguf.GGMLQuantizationType[kind]
    metadata, tensors = read(source)
    for name, (data, stored) in tensors.items():
        values = gguf.quants.dequantize(data, stored).astype(np.float32, copy=False)
        if values.ndim == 2:
            tensors[name] = (values if kind == "F32" else gguf.quants.quantize(values, to), to)
    write(target, metadata, tensors)
    return target


def with_metadata(source: Path, target: Path, edit: Callable[[Metadata], None]) -> Path:
    """A copy whose metadata went through `edit`."""
    metadata, tensors = read(source)
    edit(metadata)
    write(target, metadata, tensors)
    return target


def with_scalar_pattern(source: Path, target: Path) -> Path:
    """A copy whose sliding_window_pattern is the number 4 instead of one flag a layer (both forms are
    published)."""

    def edit(metadata: Metadata) -> None:
        key = "muse-glimmer.attention.sliding_window_pattern"
        assert metadata[key][0] == [i % 4 < 3 for i in range(len(metadata[key][0]))]
        metadata[key] = (4, gguf.GGUFValueType.UINT32, None)

    return with_metadata(source, target, edit)
