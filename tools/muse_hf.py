"""Muse Glimmer between GGUF and transformers: the float32 oracle of every accuracy test of this family.

`load_gguf` dequantizes any `muse-glimmer` GGUF (K-quants too), undoes what the converter did, and gives the
transformers model; `text_tensors` is the converter's direction. Needs torch, transformers >= 5.15 and gguf.
Used by tiny_reference.py and record_golden.py; never by the package or its tests.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import MuseGlimmerConfig, MuseGlimmerForConditionalGeneration

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
# The vision tower is not used, but the class wants one.
NO_VISION = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
             "patch_size": 14, "pos_emb_height": 4, "pos_emb_width": 4}  # fmt: skip


def to_adjacent(w: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Rotary rows of one head from halves (k, k + h/2), as transformers keeps them, to pairs (2k, 2k + 1),
    as GGUF does."""
    out, cols = w.shape
    return w.reshape(n_heads, 2, out // n_heads // 2, cols).transpose(1, 2).reshape(out, cols).contiguous()


def to_halves(w: torch.Tensor, n_heads: int) -> torch.Tensor:
    out, cols = w.shape
    return w.reshape(n_heads, out // n_heads // 2, 2, cols).transpose(1, 2).reshape(out, cols).contiguous()


def text_tensors(state: dict[str, torch.Tensor], config) -> dict[str, np.ndarray]:
    """{gguf name: float32 array} of a transformers state dict, in the order the converter writes them."""
    out = {
        "token_embd.weight": state[LM + "embed_tokens.weight"],
        "output.weight": state["lm_head.weight"],
        "output_norm.weight": state[LM + "norm.weight"],  # the one norm that is not centred: no +1
    }
    for layer in range(config.num_hidden_layers):
        for name, (source, kind) in LAYER_MAP.items():
            w = state[f"{LM}layers.{layer}.{source}.weight"].float()
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


def make_config(**text) -> MuseGlimmerConfig:
    config = MuseGlimmerConfig(
        text_config=text,
        vision_config=NO_VISION,
        out_hidden_size=128,
        projector_hidden_size=32,
        image_token_id=0,
        video_token_id=0,
        tie_word_embeddings=False,
    )
    config._attn_implementation = "eager"
    return config


def read_gguf(path: Path) -> tuple[dict[str, torch.Tensor], dict]:
    """All tensors dequantized to float32, and all metadata."""
    reader = gguf.GGUFReader(str(path))
    tensors = {}
    for t in reader.tensors:
        values = np.array(gguf.quants.dequantize(t.data, t.tensor_type), dtype=np.float32)
        tensors[t.name] = torch.from_numpy(values.reshape([int(n) for n in reversed(t.shape)]).copy())
    return tensors, {key: field.contents() for key, field in reader.fields.items()}


def config_sizes(meta: dict, vocab: int) -> dict:
    """The configuration fields that every family here spells alike."""
    arch = meta["general.architecture"]
    names = {
        "hidden_size": "embedding_length",
        "intermediate_size": "feed_forward_length",
        "num_hidden_layers": "block_count",
        "num_attention_heads": "attention.head_count",
        "num_key_value_heads": "attention.head_count_kv",
        "max_position_embeddings": "context_length",
        "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    }
    return {"vocab_size": vocab} | {field: meta[f"{arch}.{key}"] for field, key in names.items()}


def load_gguf(path: Path) -> MuseGlimmerForConditionalGeneration:
    tensors, meta = read_gguf(path)
    assert meta["general.architecture"] == ARCH, meta["general.architecture"]

    def key(name, default=None):
        return meta.get(f"{ARCH}.{name}", default)

    n_layers = key("block_count")
    pattern = key("attention.sliding_window_pattern", 4)
    sliding = (
        [i % pattern < pattern - 1 for i in range(n_layers)] if isinstance(pattern, int) else list(pattern)
    )
    theta = key("rope.freq_base")
    config = make_config(
        **config_sizes(meta, tensors["token_embd.weight"].shape[0]),
        head_dim=key("attention.key_length"),
        sliding_window=key("attention.sliding_window"),
        qk_scale_factor=float(tensors["blk.0.attn_q_norm.weight"][0]),
        output_multiplier=key("logit_scale"),
        final_logit_softcapping=key("final_logit_softcapping"),
        layer_types=["sliding_attention" if s else "full_attention" for s in sliding],
        layer_rope_theta=[theta if s else 0 for s in sliding],
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        bos_token_id=meta["tokenizer.ggml.bos_token_id"],
        eos_token_id=meta["tokenizer.ggml.eos_token_id"],
        pad_token_id=None,
    )
    model = MuseGlimmerForConditionalGeneration(config).float().eval()
    state = {
        LM + "embed_tokens.weight": tensors["token_embd.weight"],
        "lm_head.weight": tensors["output.weight"],
        LM + "norm.weight": tensors["output_norm.weight"],
    }
    for layer in range(n_layers):
        for name, (target, kind) in LAYER_MAP.items():
            w = tensors[f"blk.{layer}.{name}.weight"]
            if kind == "centred":
                w = w - 1.0
            elif kind == "rotary_q":
                w = to_halves(w, key("attention.head_count"))
            elif kind == "rotary_k":
                w = to_halves(w, key("attention.head_count_kv"))
            state[f"{LM}layers.{layer}.{target}.weight"] = w
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("vision" in name for name in missing), (missing, unexpected)
    return model


@torch.no_grad()
def forward(model, ids: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """One pass without a cache: logits [T, vocab] and residuals [n_layers + 1, T, d] (before every layer,
    and the last)."""
    taken: list[torch.Tensor] = []
    text = model.model.language_model
    hooks = [
        layer.register_forward_pre_hook(
            lambda _, args, kwargs: taken.append((args[0] if args else kwargs["hidden_states"])[0].clone()),
            with_kwargs=True,
        )
        for layer in text.layers
    ]
    hooks.append(text.norm.register_forward_pre_hook(lambda _, args: taken.append(args[0][0].clone())))
    try:
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float()
    finally:
        for hook in hooks:
            hook.remove()
    return logits.numpy(), torch.stack(taken).numpy()


def greedy(model, prompt: list[int], n: int) -> tuple[list[int], np.ndarray]:
    """n greedy tokens, each from a full recompute (slow and sure), and the logits [n, vocab] that chose
    them."""
    ids, rows = list(prompt), []
    for _ in range(n):
        rows.append(forward(model, ids)[0][-1])
        ids.append(int(rows[-1].argmax()))
    return ids[len(prompt) :], np.stack(rows)
