"""Which matrix gets which type: llama-quantize's own choice, recorded (tools/record_quantize_types.py), and the published
size of a real file. The models are sparse files with the recorded shapes: the rules read no weights."""

from __future__ import annotations

import json
import os
from pathlib import Path

import gguf
import numpy as np
import pytest
from quant_blocks import block_size

from muser import _muser, quantizing
from tools.shapes import shape as shapes
from tools.shapes import writer

RECORD = json.loads((Path(__file__).parent / "data" / "llama_cpp" / "quantize_types.json").read_text())["models"]


def sparse_model(path: Path, architecture: str, keys: dict[str, int], tensors: dict[str, list[int]]) -> _muser.GgufFile:
    out = gguf.GGUFWriter(str(path), architecture)
    for key, value in keys.items():
        out.add_uint32(f"{architecture}.{key}", value)
    for name, size in tensors.items():
        nbytes = 2 * int(np.prod(size))
        out.add_tensor_info(name, size[::-1], np.dtype(np.float16), nbytes, gguf.GGMLQuantizationType.F16)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_ti_data_to_file()
    out.close()
    os.truncate(path, writer.padded(path.stat().st_size) + sum(writer.padded(2 * int(np.prod(s))) for s in tensors.values()))
    return _muser.GgufFile(path)


@pytest.mark.parametrize("model", sorted(RECORD))
def test_every_matrix_gets_the_type_that_llama_quantize_gives_it(model: str, tmp_path: Path) -> None:
    recorded = RECORD[model]
    file = sparse_model(tmp_path / "m.gguf", recorded["architecture"], recorded["keys"], recorded["shapes"])
    for mix, types in recorded["types"].items():
        expected = dict(zip(recorded["shapes"], types.split(), strict=True))
        assert dict(zip(recorded["shapes"], _muser.quantize_types(file, mix), strict=True)) == expected, mix
    assert set(quantizing.TYPES) - recorded["types"].keys() == {"F32"}


def test_the_published_size_of_muse_glimmer_follows_from_its_shapes(tmp_path: Path) -> None:
    """muse-glimmer-30B-kquant-17gb.gguf: Q4_K_M with a Q5_K head, 16,756,681,056 bytes, of which 16,743,567,360 are
    tensors and 13,113,696 the header, which holds the vocabulary (docs/quantize.md says where the numbers come from)."""
    plan = writer.plan(shapes.find("muse-glimmer-30b", {"mix": "F16", "types": {}}))
    assert not any(tensor.type == "F16" and len(tensor.shape) == 1 for tensor in plan.tensors)
    path = tmp_path / "m.gguf"
    keys = {"block_count": 52, "attention.head_count": 32, "attention.head_count_kv": 2}
    sizes = {tensor.name: list(tensor.shape[::-1]) for tensor in plan.tensors if len(tensor.shape) > 1}
    types = _muser.quantize_types(sparse_model(path, "muse-glimmer", keys, sizes), "Q4_K_M")
    types = quantizing._overridden(dict(enumerate(sizes)), types, {"output.weight": "Q5_K"})
    matrices = sum(
        int(np.prod(size)) // block_size(kind)[0] * block_size(kind)[1]
        for size, kind in zip(sizes.values(), types, strict=True)
    )
    vectors = sum(tensor.nbytes for tensor in plan.tensors if len(tensor.shape) == 1)
    assert matrices + vectors == 16_743_567_360 == 16_756_681_056 - 13_113_696
    assert {kind: types.count(kind) for kind in types} == {"Q4_K": 365, "Q5_K": 1, "Q6_K": 52}
