"""Muse Glimmer between GGUF and transformers: the float32 oracle of every accuracy test of this family.

`load_gguf` dequantizes any `muse-glimmer` GGUF (K-quants too), undoes what the converter did, and gives the
transformers model; muse_layout.py holds the names and both directions. Needs torch, transformers >= 5.15 and gguf.
Used by tiny_reference.py and record_golden.py; never by the package or its tests.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from muse_layout import ARCH, read_gguf, text_state
from transformers import MuseGlimmerConfig, MuseGlimmerForConditionalGeneration

# The vision tower is not used, but the class wants one.
NO_VISION = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
             "patch_size": 14, "pos_emb_height": 4, "pos_emb_width": 4}  # fmt: skip


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
    state = text_state(tensors, config.text_config)
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
