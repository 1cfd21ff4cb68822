"""The forward pass of every supported family in plain numpy: the oracle of the graph.

``logits(path, ids)`` reads the file and dequantizes it with the gguf package, shares nothing with muser, and
computes one full causal pass without a cache in float64. Pass ``dtype=np.float32`` to see how much the
precision of the arithmetic alone matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import dequantize

Array = np.ndarray


class File:
    """Keys without the architecture's prefix, and dequantized tensors as [out, in] matrices."""

    def __init__(self, path: str | Path, dtype: Any) -> None:
        reader = gguf.GGUFReader(str(path))
        self.dtype = dtype
        self.keys = {name: field.contents() for name, field in reader.fields.items()}
        self.arch = self.keys["general.architecture"]
        self.tensors = {t.name: t for t in reader.tensors}

    def key(self, name: str, default: Any = None) -> Any:
        return self.keys.get(f"{self.arch}.{name}", default)

    def tensor(self, name: str) -> Array | None:
        t = self.tensors.get(name)
        return (
            None
            if t is None
            else np.asarray(dequantize(t.data, t.tensor_type), np.float32).astype(self.dtype)
        )

    def weight(self, name: str) -> Array:
        found = self.tensor(name)
        assert found is not None, f"the file has no tensor {name}"
        return found


@dataclass(frozen=True)
class Rope:
    theta: float
    scale: float  # multiplies the position
    adjacent: bool  # pairs (2k, 2k+1), else (k, k + h/2)
    factors: Array | None  # divisors of the frequencies


@dataclass(frozen=True)
class Layer:
    window: int | None  # None: full attention
    rope: Rope | None  # None: no position encoding


# ---------------------------------------------------------------------------------------------- switches


def sliding_layers(file: File, n_layers: int) -> list[bool]:
    """Which layers are sliding: the array as it stands, or of every ``pattern`` layers all but the last."""
    default = {"muse-glimmer": 4, "gemma3": 6}.get(file.arch)
    if default is None or not file.key("attention.sliding_window"):
        return [False] * n_layers
    pattern = file.key("attention.sliding_window_pattern", default)
    if isinstance(pattern, list):
        return [bool(sliding) for sliding in pattern]
    return [i % pattern < pattern - 1 for i in range(n_layers)]


def layers_of(file: File) -> list[Layer]:
    """Window and rope of each layer."""
    adjacent = file.arch in ("llama", "muse-glimmer")
    theta = file.key("rope.freq_base", 1e6 if file.arch == "gemma3" else 10000.0)
    theta_swa = file.key("rope.freq_base_swa", 10000.0 if file.arch == "gemma3" else theta)
    factor = (
        file.key("rope.scaling.factor", 0.0) if file.key("rope.scaling.type", "linear") == "linear" else 0.0
    )
    global_rope = Rope(theta, 1.0 / factor if factor else 1.0, adjacent, file.tensor("rope_freqs.weight"))
    sliding_rope = Rope(theta_swa, 1.0, adjacent, None)
    window = file.key("attention.sliding_window")
    full = Layer(None, None if file.arch == "muse-glimmer" else global_rope)
    return [
        Layer(window, sliding_rope) if sliding else full
        for sliding in sliding_layers(file, file.key("block_count"))
    ]


def attention_scale(file: File, head_dim: int) -> float:
    if file.arch == "gemma3" and file.key("block_count") == 62:  # the 27B model
        return float(file.key("embedding_length") // file.key("attention.head_count")) ** -0.5
    return float(file.key("attention.scale", 0.0)) or head_dim**-0.5


# ------------------------------------------------------------------------------------------------- pieces


def rms(x: Array, eps: float, weight: Array | None = None) -> Array:
    y = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    return y if weight is None else y * weight


def rotate(x: Array, rope: Rope) -> Array:
    """x: [T, heads, h], row t at position t."""
    n, _, h = x.shape
    frequencies = rope.theta ** (-2.0 * np.arange(h // 2) / h)
    if rope.factors is not None:
        frequencies = frequencies / rope.factors
    angles = (np.arange(n)[:, None] * rope.scale * frequencies)[:, None, :]
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    a, b = (x[..., 0::2], x[..., 1::2]) if rope.adjacent else (x[..., : h // 2], x[..., h // 2 :])
    first, second = a * cos - b * sin, a * sin + b * cos
    if not rope.adjacent:
        return np.concatenate([first, second], axis=-1)
    return np.stack([first, second], axis=-1).reshape(x.shape)


def softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def attend(q: Array, k: Array, v: Array, window: int | None, scale: float) -> Array:
    """q: [T, heads, h]; k, v: [T, kv_heads, h] -> [T, heads * h]. Key j is visible to row i iff i - window < j <= i."""
    n, heads, h = q.shape
    group = heads // k.shape[1]
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    hidden = (j > i) if window is None else (j > i) | (j <= i - window)
    out = np.empty_like(q)
    for head in range(heads):
        scores = q[:, head] @ k[:, head // group].T * scale
        out[:, head] = softmax(np.where(hidden, -np.inf, scores)) @ v[:, head // group]
    return out.reshape(n, heads * h)


def silu(x: Array) -> Array:
    return x / (1.0 + np.exp(-x))


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1.0 + np.tanh((2.0 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))


# ------------------------------------------------------------------------------------------------ the pass


def attention_block(file: File, i: int, layer: Layer, x: Array) -> Array:
    """x: [T, d], already normed -> what is added to the residual, before a post-norm."""
    eps = file.key("attention.layer_norm_rms_epsilon")
    heads = file.key("attention.head_count")
    kv_heads = file.key("attention.head_count_kv", heads)
    head_dim = file.key("attention.key_length", file.key("embedding_length") // heads)

    def project(name: str, n_heads: int) -> Array:
        y = x @ file.weight(f"blk.{i}.{name}.weight").T
        bias = file.tensor(f"blk.{i}.{name}.bias")
        return (y if bias is None else y + bias).reshape(len(x), n_heads, head_dim)

    def normed(y: Array, name: str) -> Array:
        weight = file.tensor(f"blk.{i}.{name}.weight")
        return y if weight is None else rms(y, eps, weight)

    q = normed(project("attn_q", heads), "attn_q_norm")
    k = normed(project("attn_k", kv_heads), "attn_k_norm")
    v = project("attn_v", kv_heads)
    if layer.rope is not None:
        q, k = rotate(q, layer.rope), rotate(k, layer.rope)
    out = attend(q, k, v, layer.window, attention_scale(file, head_dim))
    gate = file.tensor(f"blk.{i}.attn_gate.weight")
    if gate is not None:
        out = out / (1.0 + np.exp(-(x @ gate.T)))
    out = out @ file.weight(f"blk.{i}.attn_output.weight").T
    bias = file.tensor(f"blk.{i}.attn_output.bias")
    return out if bias is None else out + bias


def feed_forward(file: File, i: int, x: Array) -> Array:
    activation = gelu_tanh if file.arch == "gemma3" else silu
    gate = activation(x @ file.weight(f"blk.{i}.ffn_gate.weight").T)
    up = x @ file.weight(f"blk.{i}.ffn_up.weight").T
    return (gate * up) @ file.weight(f"blk.{i}.ffn_down.weight").T


def head(file: File, x: Array) -> Array:
    output = file.tensor("output.weight")
    logits = x @ (file.weight("token_embd.weight") if output is None else output).T
    bias = file.tensor("output.bias")
    if bias is not None:
        logits = logits + bias
    logits = logits * file.key("logit_scale", 1.0)
    cap = file.key("final_logit_softcapping", 30.0 if file.arch == "muse-glimmer" else 0.0)
    return cap * np.tanh(logits / cap) if cap else logits


def forward(path: str | Path, ids: Sequence[int], dtype: Any = np.float64) -> tuple[Array, Array]:
    """(logits [T, vocab], residuals [layers + 1, T, d]: the input of every layer, then the output of the last)."""
    file = File(path, dtype)
    eps = file.key("attention.layer_norm_rms_epsilon")
    post_eps = 1e-8 if file.arch == "muse-glimmer" else eps

    def post_norm(y: Array, name: str) -> Array:
        weight = file.tensor(name)
        return y if weight is None else rms(y, post_eps, weight)

    x = file.weight("token_embd.weight")[np.asarray(ids)]
    if file.arch == "muse-glimmer":
        x = rms(x, eps)
    elif file.arch == "gemma3":
        x = x * np.sqrt(dtype(file.key("embedding_length")))
    residuals = [x]
    for i, layer in enumerate(layers_of(file)):
        y = attention_block(file, i, layer, rms(x, eps, file.weight(f"blk.{i}.attn_norm.weight")))
        x = x + post_norm(y, f"blk.{i}.post_attention_norm.weight")
        y = feed_forward(file, i, rms(x, eps, file.weight(f"blk.{i}.ffn_norm.weight")))
        x = x + post_norm(y, f"blk.{i}.post_ffw_norm.weight")
        residuals.append(x)
    return head(file, rms(x, eps, file.weight("output_norm.weight"))), np.stack(residuals)


def logits(path: str | Path, ids: Sequence[int], dtype: Any = np.float64) -> Array:
    """[T, vocab] logits of every position of ``ids``, the first at position 0."""
    return forward(path, ids, dtype)[0]
