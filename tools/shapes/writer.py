"""The file of a shape. The gguf package writes what stands before the tensors; their bytes follow piece by piece,
so that memory stays bounded whatever the size."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import toy

from tools.shapes.errors import NoSpaceError
from tools.shapes.shape import Shape
from tools.shapes.tensors import Tensor, tensors
from tools.shapes.values import pieces
from tools.shapes.vocabulary import vocabulary

ALIGNMENT = gguf.GGUF_DEFAULT_ALIGNMENT


@dataclass(frozen=True)
class Plan:
    tensors: list[Tensor]
    header: int  # bytes in front of the first tensor

    @property
    def tensor_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors)

    @property
    def file_bytes(self) -> int:
        return self.header + sum(padded(tensor.nbytes) for tensor in self.tensors)


def padded(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def plan(shape: Shape) -> Plan:
    """What `write` would write, without writing it."""
    table = tensors(shape)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "header"
        write_header(shape, table, path)
        return Plan(table, path.stat().st_size)


def write(shape: Shape, path: Path, seed: int, report: Callable[[int], None] = lambda written: None) -> Plan:
    """Writes the model under another name, and renames it when it is whole: the same shape and seed give the
    same bytes. `report` is told how many have been written. Raises NoSpaceError."""
    planned = plan(shape)
    check_space(path.parent, planned.file_bytes)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        write_header(shape, planned.tensors, part)
        with part.open("ab") as file:
            for tensor in planned.tensors:
                for piece in pieces(tensor, seed):
                    file.write(piece)
                file.write(bytes(padded(tensor.nbytes) - tensor.nbytes))
                report(file.tell())
        part.replace(path)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        part.unlink(missing_ok=True)
        raise NoSpaceError(path.parent, planned.file_bytes, shutil.disk_usage(path.parent).free) from None
    finally:
        part.unlink(missing_ok=True)
    return planned


def check_space(folder: Path, needed: int) -> None:
    available = shutil.disk_usage(folder).free
    if needed > available:
        raise NoSpaceError(folder, needed, available)


def write_header(shape: Shape, table: list[Tensor], path: Path) -> None:
    """Metadata, vocabulary and the table of tensors, padded to where the first one starts."""
    writer = gguf.GGUFWriter(str(path), shape.toy.arch)
    keys = {**toy.model_keys(shape.toy), **toy.tokenizer_keys(shape.toy, vocabulary(shape))}
    for key, value in {**keys, "general.name": f"random {shape.name}", **shape.toy.metadata}.items():
        if value is not None:
            toy.add_key(writer, key, value)
    for tensor in table:
        kind = gguf.GGMLQuantizationType[tensor.type]
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), tensor.nbytes, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with path.open("ab") as file:
        file.write(bytes(padded(file.tell()) - file.tell()))
