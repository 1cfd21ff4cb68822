"""float32 logits of a llama or gemma3 GGUF from transformers on its dequantized weights: what both engines
round away from.

Needs torch and transformers. Used by record_llama_cpp.py to measure the noise of a quantized run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from muse_hf import config_sizes
from muse_layout import read_gguf, to_halves
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

# gguf suffix -> transformers suffix
COMMON = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
LLAMA = COMMON | {"ffn_norm": "post_attention_layernorm"}
GEMMA3 = COMMON | {
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


def _llama(meta: dict, sizes: dict) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            **sizes,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": meta["llama.rope.freq_base"]},
            attn_implementation="eager",
        )
    )


def _gemma3(meta: dict, sizes: dict) -> Gemma3ForCausalLM:
    head_dim = meta["gemma3.attention.key_length"]
    full = [i % 6 == 5 for i in range(sizes["num_hidden_layers"])]
    return Gemma3ForCausalLM(
        Gemma3TextConfig(
            **sizes,
            head_dim=head_dim,
            query_pre_attn_scalar=head_dim,
            sliding_window=meta["gemma3.attention.sliding_window"],
            layer_types=["full_attention" if f else "sliding_attention" for f in full],
            rope_parameters={
                "full_attention": {"rope_type": "default", "rope_theta": meta["gemma3.rope.freq_base"]},
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            },
            hidden_activation="gelu_pytorch_tanh",
            tie_word_embeddings=True,
            attn_implementation="eager",
        )
    )


class RealOracle:
    def __init__(self, path: Path) -> None:
        tensors, meta = read_gguf(path)
        arch = meta["general.architecture"]
        vocab = tensors["token_embd.weight"].shape[0]
        model = {"llama": _llama, "gemma3": _gemma3}[arch](meta, config_sizes(meta, vocab))
        centred = 1.0 if arch == "gemma3" else 0.0  # its converter adds 1 to every norm
        state = {
            "model.embed_tokens.weight": tensors["token_embd.weight"],
            "lm_head.weight": tensors["token_embd.weight"],
            "model.norm.weight": tensors["output_norm.weight"] - centred,
        }
        for layer in range(meta[f"{arch}.block_count"]):
            for name, target in (GEMMA3 if arch == "gemma3" else LLAMA).items():
                w = tensors[f"blk.{layer}.{name}.weight"]
                if w.ndim == 1:
                    w = w - centred
                elif arch == "llama" and name in ("attn_q", "attn_k"):
                    heads = "attention.head_count" if name == "attn_q" else "attention.head_count_kv"
                    w = to_halves(w, meta[f"llama.{heads}"])
                state[f"model.layers.{layer}.{target}.weight"] = w
        assert {
            f"blk.{i}.{n}.weight"
            for i in range(meta[f"{arch}.block_count"])
            for n in (GEMMA3 if arch == "gemma3" else LLAMA)
        } | {"token_embd.weight", "output_norm.weight"} == set(tensors)
        model.load_state_dict(state)
        self.model = model.float().eval()

    @torch.no_grad()
    def logits(self, ids: list[int], first: int = 0) -> np.ndarray:
        """float32 [T - first, vocab], rows first.. of one pass."""
        return (
            self.model(input_ids=torch.tensor([ids]), use_cache=False, logits_to_keep=len(ids) - first)
            .logits[0]
            .numpy()
        )
