"""Writes the seeds of the GGUF fuzzer into a folder: python tests/fuzz/make_corpus.py FOLDER"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import gguf  # noqa: E402

import raw_gguf as raw  # noqa: E402


def seeds() -> dict[str, bytes]:
    every = raw.Raw()
    for kind in raw.FORMATS:
        every.key(f"k{kind}", kind, 1).key(f"a{kind}", raw.ARRAY, (kind, [1, 0, 1]))
    every.key("s", raw.STRING, "text").key("as", raw.ARRAY, (raw.STRING, ["a", "", "bc"]))
    every.key("n", raw.ARRAY, (raw.ARRAY, [(raw.I32, [1]), (raw.ARRAY, [(raw.F32, [0.5])])]))
    tensors = raw.Raw(version=2, alignment=64).key("general.alignment", raw.U32, 64)
    for kind in gguf.GGMLQuantizationType:
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        if kind.name in ("F32", "F16", "BF16", "IQ4_NL", "IQ4_XS") or kind.name in [f"Q{n}_{k}" for n in range(2, 9) for k in "01K"]:
            if kind.name not in ("Q8_1", "Q8_K"):
                tensors.tensor(f"t.{kind.name}", int(kind), [elements, 2], bytes(range(256))[: 2 * size].ljust(2 * size, b"a"))
    split = raw.Raw().key("split.no", raw.U16, 1).key("split.count", raw.U16, 2).key("split.tensors.count", raw.I32, 1)
    split.tensor("w", raw.T_F32, [2, 1, 1, 1], bytes(8))
    big_endian = b"GGUF" + bytes([0, 0, 0, 3]) + bytes(16)
    return {"every": every.bytes(), "tensors": tensors.bytes(), "split": split.bytes(), "big": big_endian, "html": b"<html>"}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in seeds().items():
        (folder / name).write_bytes(content)
