"""Names and layout of Muse Glimmer's tensors in a GGUF and in a transformers state dict. No transformers needed.

Used by muse_hf.py and by tiny_muse/.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch

ARCH = "muse-glimmer"
LM = "model.language_model."
# gguf suffix -> (transformers suffix, what the converter does to it)
LAYER_MAP = {
    "attn_norm": ("input_layernorm", "centred"),
    "post_attention_norm": ("post_attention_layernorm", "centred"),
    "ffn_norm": ("pre_feedforward_layernorm", "centred"),
    "post_ffw_norm": ("post_feedforward_layernorm", "centred"),
    "attn_q": ("self_attn.q_proj", "rotary_q"),
    "attn_k": ("self_attn.k_proj", "rotary_k"),
    "attn_v": ("self_attn.v_proj", "plain"),
    "attn_gate": ("self_attn.gate_proj", "plain"),
    "attn_output": ("self_attn.o_proj", "plain"),
    "ffn_gate": ("mlp.gate_proj", "plain"),
    "ffn_up": ("mlp.up_proj", "plain"),
    "ffn_down": ("mlp.down_proj", "plain"),
}


def to_adjacent(w: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Rotary rows of one head from halves (k, k + h/2), as transformers keeps them, to pairs (2k, 2k + 1),
    as GGUF does."""
    out, cols = w.shape
    return w.reshape(n_heads, 2, out // n_heads // 2, cols).transpose(1, 2).reshape(out, cols).contiguous()


def to_halves(w: torch.Tensor, n_heads: int) -> torch.Tensor:
    out, cols = w.shape
    return w.reshape(n_heads, out // n_heads // 2, 2, cols).transpose(1, 2).reshape(out, cols).contiguous()


def text_tensors(state: dict[str, torch.Tensor], config, prefix: str = LM) -> dict[str, np.ndarray]:
    """{gguf name: float32 array} of a transformers state dict, in the order the converter writes them.

    config: a transformers text configuration, or anything with its head and layer counts."""
    out = {
        "token_embd.weight": state[prefix + "embed_tokens.weight"],
        "output.weight": state["lm_head.weight"],
        "output_norm.weight": state[prefix + "norm.weight"],  # the one norm that is not centred: no +1
    }
    for layer in range(config.num_hidden_layers):
        for name, (source, kind) in LAYER_MAP.items():
            w = state[f"{prefix}layers.{layer}.{source}.weight"].float()
            if kind == "centred":
                w = w + 1.0
            elif kind == "rotary_q":
                w = to_adjacent(w, config.num_attention_heads)
            elif kind == "rotary_k":
                w = to_adjacent(w, config.num_key_value_heads)
            out[f"blk.{layer}.{name}.weight"] = w
        # The weightless QK norm and its factor become constant norm weights.
        out[f"blk.{layer}.attn_q_norm.weight"] = torch.full((config.head_dim,), float(config.qk_scale_factor))
        out[f"blk.{layer}.attn_k_norm.weight"] = torch.ones(config.head_dim)
    return {name: w.detach().float().contiguous().numpy() for name, w in out.items()}


def text_state(tensors: dict[str, torch.Tensor], config, prefix: str = LM) -> dict[str, torch.Tensor]:
    """The other way."""
    state = {
        prefix + "embed_tokens.weight": tensors["token_embd.weight"],
        "lm_head.weight": tensors["output.weight"],
        prefix + "norm.weight": tensors["output_norm.weight"],
    }
    for layer in range(config.num_hidden_layers):
        for name, (target, kind) in LAYER_MAP.items():
            w = tensors[f"blk.{layer}.{name}.weight"]
            if kind == "centred":
                w = w - 1.0
            elif kind == "rotary_q":
                w = to_halves(w, config.num_attention_heads)
            elif kind == "rotary_k":
                w = to_halves(w, config.num_key_value_heads)
            state[f"{prefix}layers.{layer}.{target}.weight"] = w
    return state


def read_gguf(path: Path) -> tuple[dict[str, torch.Tensor], dict]:
    """All tensors dequantized to float32, and all metadata."""
    reader = gguf.GGUFReader(str(path))
    tensors = {}
    for t in reader.tensors:
        values = np.array(gguf.quants.dequantize(t.data, t.tensor_type), dtype=np.float32)
        tensors[t.name] = torch.from_numpy(values.reshape([int(n) for n in reversed(t.shape)]).copy())
    return tensors, {key: field.contents() for key, field in reader.fields.items()}
