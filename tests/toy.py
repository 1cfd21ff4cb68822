"""Toy GGUF models of every supported family, for everybody's tests: a few layers, random weights, any quant type.

    write_toy(path, "gemma3", quant="Q4_K", seed=3, window=8)

Keyword overrides are the fields of ``Toy``; a wrong name is a TypeError. ``VARIANTS`` names combinations that
together switch every part of the graph on and off. ``toy_reference.logits`` is the oracle for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from quant_blocks import ALL_TYPES, block_size, random_weights
from toy_vocab import Vocab, bpe_vocab, sentencepiece_vocab

ARCHITECTURES = ("muse-glimmer", "llama", "qwen2", "qwen3", "gemma3")
__all__ = ["ALL_TYPES", "ARCHITECTURES", "NARROW", "VARIANTS", "Toy", "toy_params", "write_toy"]


@dataclass(frozen=True)
class Toy:
    """Everything that defines one toy model. Sizes that a quant type cannot have are refused by the writer."""

    arch: str
    quant: str = "F32"  # of every 2-D weight; vectors are always F32
    seed: int = 0
    layers: int = 4
    d_model: int = 64
    d_ff: int = 96
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    context: int = 256
    eps: float = 1e-5
    theta: float = 10000.0
    theta_swa: float | None = None  # None: the key is absent
    window: int | None = None  # None: the family has no sliding layers
    pattern: int | list[bool] | None = None  # sliding_window_pattern; None: the key is absent
    rope_scaling: float | None = None  # linear
    rope_freqs: bool = False  # tensor of per-pair divisors (llama)
    attention_scale: float | None = None  # llama's optional key
    qkv_bias: bool = False
    qk_norm: bool = False
    gate: bool = False
    post_norms: bool = False
    tied: bool = False
    logit_scale: float | None = None
    softcap: float | None = None
    tokenizer: str = "bpe"  # or "spm"
    chat_template: str | None = None
    alignment: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)  # extra or replaced keys; None removes one
    drop_tensors: tuple[str, ...] = ()
    positive_head: bool = False  # Q8_0: no negative scales in it, as quantizers write them; what Device::can_choose asks for


FAMILY: dict[str, dict[str, Any]] = {
    "muse-glimmer": {"window": 16, "pattern": [True, True, True, False], "theta": 500000.0, "qk_norm": True, "gate": True,
                         "post_norms": True, "logit_scale": 0.5, "softcap": 20.0},
    "llama": {"layers": 3, "head_dim": 16},
    "qwen2": {"layers": 3, "head_dim": 16, "eps": 1e-6, "theta": 1000000.0, "qkv_bias": True},
    "qwen3": {"layers": 3, "eps": 1e-6, "theta": 1000000.0, "qk_norm": True, "tied": True},
    "gemma3": {"layers": 6, "window": 16, "eps": 1e-6, "theta": 1000000.0, "qk_norm": True, "post_norms": True, "tied": True,
                   "tokenizer": "spm"},
}  # fmt: skip

# For many tokens on the simulated Metal device: one block of 32 wherever a shape is free.
NARROW: dict[str, Any] = {"d_model": 32, "d_ff": 32, "heads": 2, "kv_heads": 1, "head_dim": 32}

# name -> (architecture, overrides)
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "muse": ("muse-glimmer", {}),
    "muse-scalar-pattern": ("muse-glimmer", {"layers": 5, "pattern": 4}),
    "muse-default-pattern": ("muse-glimmer", {"pattern": None}),
    "muse-odd-pattern": ("muse-glimmer", {"layers": 3, "pattern": [False, True, False]}),
    "muse-swa-theta": ("muse-glimmer", {"theta_swa": 1234.0}),
    "llama": ("llama", {}),
    "llama-tied-rope-freqs": ("llama", {"tied": True, "rope_freqs": True}),
    "llama-bias-scaling": (
        "llama",
        {"qkv_bias": True, "rope_scaling": 2.0, "head_dim": 32, "attention_scale": 0.2},
    ),
    "llama-one-kv-head": ("llama", {"kv_heads": 1}),
    "qwen2": ("qwen2", {}),
    "qwen2-tied-mha": ("qwen2", {"tied": True, "kv_heads": 4}),
    "qwen3": ("qwen3", {}),
    "qwen3-untied": ("qwen3", {"tied": False}),
    "gemma3": ("gemma3", {}),
    "gemma3-scaling": ("gemma3", {"rope_scaling": 8.0, "theta_swa": 5000.0}),
    "gemma3-softcap-untied": ("gemma3", {"softcap": 5.0, "tied": False}),
}


def toy_params(arch: str, quant: str = "F32", seed: int = 0, **overrides: Any) -> Toy:
    """The family's defaults, widened to 256-multiples where the quant type needs them, then the overrides."""
    if arch not in FAMILY:
        raise ValueError(f"arch must be one of {', '.join(ARCHITECTURES)}, not {arch!r}")
    if quant not in ALL_TYPES:
        raise ValueError(f"quant must be one of {', '.join(ALL_TYPES)}, not {quant!r}")
    toy = Toy(arch, quant, seed, **FAMILY[arch])
    if block_size(quant)[0] == 256:
        toy = replace(toy, d_model=256, d_ff=512, head_dim=64 if toy.head_dim == 16 else 128)
    return replace(toy, **overrides)


def write_toy(
    path: str | Path, arch: str, quant: str = "F32", seed: int = 0, vocab: Vocab | None = None, **overrides: Any
) -> Toy:
    """Writes the model to ``path`` and returns its parameters. The same arguments give the same bytes. ``vocab``: in
    place of the toy's own."""
    toy = toy_params(arch, quant, seed, **overrides)
    vocab = vocab or (sentencepiece_vocab(arch) if toy.tokenizer == "spm" else bpe_vocab(arch))
    writer = gguf.GGUFWriter(str(path), arch)
    if toy.alignment is not None:
        writer.add_custom_alignment(toy.alignment)
    keys = {**model_keys(toy), **tokenizer_keys(toy, vocab), **toy.metadata}
    for key, value in keys.items():
        if value is not None:
            add_key(writer, key, value)
    for name, shape, std in matrices(toy, len(vocab.tokens)):
        if name not in toy.drop_tensors:
            add_matrix(writer, toy, name, shape, std)
    for name, size, mean, std in vectors(toy):
        if name not in toy.drop_tensors:
            writer.add_tensor(name, rng_of(toy, name).normal(mean, std, size).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return toy


def model_keys(toy: Toy) -> dict[str, Any]:
    a = toy.arch
    keys: dict[str, Any] = {
        "general.type": "model",
        "general.name": f"toy {a}",
        f"{a}.block_count": toy.layers,
        f"{a}.context_length": toy.context,
        f"{a}.embedding_length": toy.d_model,
        f"{a}.feed_forward_length": toy.d_ff,
        f"{a}.attention.head_count": toy.heads,
        f"{a}.attention.head_count_kv": toy.kv_heads,
        f"{a}.attention.layer_norm_rms_epsilon": toy.eps,
        f"{a}.rope.freq_base": toy.theta,
        f"{a}.rope.freq_base_swa": toy.theta_swa,
        f"{a}.attention.sliding_window": toy.window,
        f"{a}.attention.sliding_window_pattern": toy.pattern,
        f"{a}.attention.scale": toy.attention_scale,
        f"{a}.logit_scale": toy.logit_scale,
        f"{a}.final_logit_softcapping": toy.softcap,
    }
    if toy.head_dim * toy.heads != toy.d_model:
        keys[f"{a}.attention.key_length"] = keys[f"{a}.attention.value_length"] = toy.head_dim
    if a == "llama":
        keys["llama.rope.dimension_count"] = toy.head_dim
    if toy.rope_scaling is not None:
        keys[f"{a}.rope.scaling.type"] = "linear"
        keys[f"{a}.rope.scaling.factor"] = toy.rope_scaling
    return keys


def tokenizer_keys(toy: Toy, vocab: Vocab) -> dict[str, Any]:
    t = "tokenizer.ggml."
    keys: dict[str, Any] = {
        f"{t}model": vocab.model,
        f"{t}pre": vocab.pre,
        f"{t}tokens": vocab.tokens,
        f"{t}token_type": vocab.types,
        f"{t}merges": vocab.merges or None,
        f"{t}scores": vocab.scores if vocab.model == "llama" else None,
        f"{t}add_bos_token": "bos" in vocab.ids,
        "tokenizer.chat_template": toy.chat_template,
    }
    return keys | {f"{t}{role}_token_id": token for role, token in vocab.ids.items()}


def add_key(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    """Python's types as GGUF files have them: int -> u32, float -> f32; lists by their elements (int -> i32)."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def matrices(toy: Toy, vocab: int) -> list[tuple[str, tuple[int, int], float]]:
    """(name, (rows, cols), standard deviation): projections keep the size of their input, residual ones shrink it."""
    d, q, kv, ff = toy.d_model, toy.heads * toy.head_dim, toy.kv_heads * toy.head_dim, toy.d_ff
    rows = [("token_embd.weight", (vocab, d), 2.0 / d**0.5)]
    for i in range(toy.layers):
        layer = [("attn_q", (q, d), 1.0), ("attn_k", (kv, d), 1.0), ("attn_v", (kv, d), 1.0)]
        layer += [("attn_gate", (q, d), 1.0)] if toy.gate else []
        layer += [("attn_output", (d, q), 0.5), ("ffn_gate", (ff, d), 1.0), ("ffn_up", (ff, d), 1.0),
                  ("ffn_down", (d, ff), 0.5)]  # fmt: skip
        rows += [(f"blk.{i}.{name}.weight", shape, gain / shape[1] ** 0.5) for name, shape, gain in layer]
    if not toy.tied:
        rows.append(("output.weight", (vocab, d), 2.0 / d**0.5))
    return rows


def vectors(toy: Toy) -> list[tuple[str, int, float, float]]:
    """(name, size, mean, standard deviation). Norm weights vary around 1, as stored (gemma3 and muse: +1 included);
    post-norms around 0.5, which keeps the residual stream from being replaced in every layer."""
    d, h = toy.d_model, toy.head_dim
    rows = [("output_norm.weight", d, 1.0, 0.2)]
    for i in range(toy.layers):
        layer = [("attn_norm.weight", d, 1.0, 0.2), ("ffn_norm.weight", d, 1.0, 0.2)]
        if toy.post_norms:
            layer += [("post_attention_norm.weight", d, 0.5, 0.1), ("post_ffw_norm.weight", d, 0.5, 0.1)]
        if toy.qk_norm:
            layer += [("attn_q_norm.weight", h, 1.0, 0.2), ("attn_k_norm.weight", h, 1.0, 0.2)]
        if toy.qkv_bias:
            layer += [("attn_q.bias", toy.heads * h, 0.0, 0.5), ("attn_k.bias", toy.kv_heads * h, 0.0, 0.5),
                      ("attn_v.bias", toy.kv_heads * h, 0.0, 0.5)]  # fmt: skip
        rows += [(f"blk.{i}.{name}", size, mean, std) for name, size, mean, std in layer]
    if toy.rope_freqs:
        rows.append(("rope_freqs.weight", h // 2, 4.0, 0.8))
    return rows


def rng_of(toy: Toy, name: str) -> np.random.Generator:
    """One stream a tensor, so that an override changes only the tensors that it concerns."""
    return np.random.default_rng([toy.seed, *name.encode()])


def add_matrix(writer: gguf.GGUFWriter, toy: Toy, name: str, shape: tuple[int, int], std: float) -> None:
    data = random_weights(toy.quant, *shape, rng_of(toy, name), std)
    if toy.positive_head and name == ("token_embd.weight" if toy.tied else "output.weight"):
        data.reshape(-1, block_size("Q8_0")[1])[:, 1] &= 0x7F
    if data.dtype == np.uint8:
        writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType[toy.quant])
    else:
        writer.add_tensor(name, data)
