"""A GGUF file with the shape of Muse Glimmer 30B and nothing in it: headers, then a hole. For counting, not computing."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from quant_blocks import block_size
from toy import Toy, add_key, matrices, model_keys, vectors

VOCAB = 202048
MUSE_30B = Toy("muse-glimmer", layers=52, d_model=6656, d_ff=19968, heads=32, kv_heads=2, head_dim=128, context=131072,
               window=2048, pattern=[i % 4 != 3 for i in range(52)], theta=500000.0, qk_norm=True, gate=True,
               post_norms=True, logit_scale=0.19611613, softcap=20.0)  # fmt: skip


def quant_of(name: str) -> str:
    """The published 17 GB file: Q4_K, but Q6_K in attn_v and ffn_down of 26 layers, and a head of Q5_K."""
    if name == "output.weight":
        return "Q5_K"
    layer = int(name.split(".")[1]) if name.startswith("blk.") else -1
    more_bits = layer >= 0 and (layer < 6 or layer >= 45 or (layer - 6) % 3 == 2)
    return "Q6_K" if more_bits and (".attn_v." in name or ".ffn_down." in name) else "Q4_K"


def write_hole(path: Path, toy: Toy = MUSE_30B, vocab: int = VOCAB) -> dict[str, int]:
    """Writes the file; returns the bytes of every matrix."""
    writer = gguf.GGUFWriter(str(path), toy.arch)
    for key, value in model_keys(toy).items():
        if value is not None:
            add_key(writer, key, value)
    sizes = {}
    for name, (rows, cols), _ in matrices(toy, vocab):
        values, size = block_size(quant_of(name))
        row_bytes = cols // values * size
        sizes[name] = rows * row_bytes
        kind = gguf.GGMLQuantizationType[quant_of(name)]
        writer.add_tensor_info(name, (rows, row_bytes), np.dtype(np.uint8), sizes[name], raw_dtype=kind)
    total = sum(-(-n // 32) * 32 for n in sizes.values())
    for name, size, _, _ in vectors(toy):
        writer.add_tensor_info(name, (size,), np.dtype(np.float32), 4 * size)
        total += -(-4 * size // 32) * 32
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with path.open("r+b") as file:
        file.truncate(-(-path.stat().st_size // 32) * 32 + total)
    return sizes
