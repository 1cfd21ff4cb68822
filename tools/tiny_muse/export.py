"""Weights to GGUF and back.

python -m tools.tiny_muse.export target  --data W/data --run W/run --out W/muse-tiny-f32.gguf [--type F16|Q8_0]
python -m tools.tiny_muse.export drafter --data W/data --run W/run --out W/dflash-tiny-Q8_0.gguf --type Q8_0
"""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer

from ..muse_layout import read_gguf, text_state, text_tensors
from ..tiny_tokenizer import add_to_gguf
from .drafter import Drafter
from .target import Shape, Target
from .template import JINJA

FILE_TYPES = {"F32": 0, "F16": 1, "Q8_0": 7}
LICENCE = "apache-2.0"
DRAFT_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _config(s: Shape) -> SimpleNamespace:
    return SimpleNamespace(
        num_hidden_layers=s.layers,
        num_attention_heads=s.heads,
        num_key_value_heads=s.kv_heads,
        head_dim=s.head_dim,
        qk_scale_factor=s.query_scale,
    )


def draft_names(s: Shape) -> dict[str, str]:
    """{gguf name: name in the state dict}."""
    names = {
        "fc.weight": "encoder.fc.weight",
        "enc.output_norm.weight": "encoder.output_norm_enc.weight",
        "output_norm.weight": "norm.weight",
    }
    for layer in range(s.draft_layers):
        names |= {f"blk.{layer}.{g}.weight": f"layers.{layer}.{h}.weight" for g, h in DRAFT_LAYER.items()}
    return names


def _writer(
    path: Path, arch: str, s: Shape, name: str, size: str, layers: int, kv_heads: int, kind: str
) -> gguf.GGUFWriter:
    w = gguf.GGUFWriter(str(path), arch)
    w.add_type("model")
    w.add_name(name)
    w.add_size_label(size)
    w.add_license(LICENCE)
    sizes = {
        "block_count": layers,
        "context_length": s.context,
        "embedding_length": s.d,
        "feed_forward_length": s.ff,
        "attention.head_count": s.heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": s.head_dim,
        "attention.value_length": s.head_dim,
        "attention.sliding_window": s.window,
    }
    for key, value in sizes.items():
        w.add_uint32(f"{arch}.{key}", value)
    w.add_float32(f"{arch}.rope.freq_base", s.theta)
    w.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", s.eps)
    w.add_file_type(FILE_TYPES[kind])
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    return w


def _finish(w: gguf.GGUFWriter, tensors: dict[str, np.ndarray], kind: str) -> None:
    """Matrices in `kind`, vectors in float32."""
    quant = gguf.GGMLQuantizationType[kind]
    for name, values in tensors.items():
        if values.ndim == 1 or kind == "F32":
            w.add_tensor(name, values)
        else:
            w.add_tensor(name, gguf.quants.quantize(values, quant), raw_dtype=quant)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_target(
    path: Path, state: dict[str, torch.Tensor], tokenizer: Tokenizer, kind: str, s: Shape | None = None
) -> None:
    s = s or Shape()
    arch = "muse-glimmer"
    w = _writer(path, arch, s, "Muse-Glimmer-tiny", "10M", s.layers, s.kv_heads, kind)
    w.add_float32(f"{arch}.final_logit_softcapping", s.cap)
    w.add_float32(f"{arch}.logit_scale", s.logit_scale)
    w.add_array(f"{arch}.attention.sliding_window_pattern", [not s.is_global(i) for i in range(s.layers)])
    add_to_gguf(w, tokenizer, s.bos)
    w.add_chat_template(JINJA)
    _finish(w, text_tensors(state, _config(s), prefix=""), kind)


def write_drafter(
    path: Path, state: dict[str, torch.Tensor], tokenizer: Tokenizer, kind: str, s: Shape | None = None
) -> None:
    s = s or Shape()
    arch = "dflash"
    w = _writer(path, arch, s, "DFlash-tiny", "2M", s.draft_layers, s.draft_kv_heads, kind)
    w.add_uint32(f"{arch}.block_size", s.block)
    w.add_array(f"{arch}.target_layers", list(s.taps))
    w.add_array(f"{arch}.attention.sliding_window_pattern", [True] * s.draft_layers)
    add_to_gguf(w, tokenizer, s.bos)
    w.add_mask_token_id(s.mask)
    _finish(w, {name: state[source].float().numpy() for name, source in draft_names(s).items()}, kind)


def read_target(path: Path, s: Shape | None = None) -> Target:
    """The model with the file's weights, dequantized."""
    s = s or Shape()
    model = Target(s)
    tensors, _ = read_gguf(path)
    model.load_state_dict(text_state(tensors, _config(s), prefix=""))
    return model.eval()


def read_drafter(path: Path, s: Shape | None = None) -> Drafter:
    s = s or Shape()
    model = Drafter(s)
    tensors, _ = read_gguf(path)
    model.load_state_dict({source: tensors[name] for name, source in draft_names(s).items()})
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("target", "drafter"):
        sub = commands.add_parser(name)
        for option in ("--data", "--run", "--out"):
            sub.add_argument(option, type=Path, required=True)
        sub.add_argument("--type", choices=FILE_TYPES, default="F32")
    a = parser.parse_args()
    state = torch.load(a.run / f"{a.command}.pt", map_location="cpu", weights_only=True)
    tokenizer = Tokenizer.from_file(str(a.data / "tokenizer.json"))
    {"target": write_target, "drafter": write_drafter}[a.command](a.out, state, tokenizer, a.type)


if __name__ == "__main__":
    main()
