"""Writes the seeds of the GGUF fuzzer into a folder: python tests/fuzz/make_corpus.py FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import gguf
import raw_gguf as raw
from quant_blocks import ALL_TYPES, block_size


def seeds() -> dict[str, bytes]:
    every = raw.Raw()
    for kind in raw.FORMATS:
        every.key(f"k{kind}", kind, 1).key(f"a{kind}", raw.ARRAY, (kind, [1, 0, 1]))
    every.key("s", raw.STRING, "text").key("as", raw.ARRAY, (raw.STRING, ["a", "", "bc"]))
    every.key("n", raw.ARRAY, (raw.ARRAY, [(raw.I32, [1]), (raw.ARRAY, [(raw.F32, [0.5])])]))
    tensors = raw.Raw(version=2, alignment=64).key("general.alignment", raw.U32, 64)
    for name in ALL_TYPES:
        elements, size = block_size(name)
        tensors.tensor(
            f"t.{name}",
            int(gguf.GGMLQuantizationType[name]),
            [elements, 2],
            (bytes(range(210)) * 5)[: 2 * size],
        )
    split = (
        raw.Raw()
        .key("split.no", raw.U16, 1)
        .key("split.count", raw.U16, 2)
        .key("split.tensors.count", raw.I32, 1)
    )
    split.tensor("w", raw.T_F32, [2, 1, 1, 1], bytes(8))
    big_endian = b"GGUF" + bytes([0, 0, 0, 3]) + bytes(16)
    return {
        "every": every.bytes(),
        "tensors": tensors.bytes(),
        "split": split.bytes(),
        "big": big_endian,
        "html": b"<html>",
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in seeds().items():
        (folder / name).write_bytes(content)
