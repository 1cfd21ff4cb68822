"""Muse Glimmer's text model in plain PyTorch, small.

Names in the state dict are those of transformers (without its prefix); norms are stored as it stores them (centred
where it adds 1), rotary pairs are halves of a head. export.py turns that into a GGUF.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    vocab: int = 4096
    d: int = 256
    layers: int = 8
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 64
    ff: int = 768
    window: int = 256
    context: int = 2048
    theta: float = 500000.0
    query_scale: float = 3.87  # after the norm of the query, as in the real model
    logit_scale: float = 0.5  # 1 / sqrt(d / 64)
    cap: float = 20.0
    eps: float = 1e-5
    post_eps: float = 1e-8
    # the drafter
    draft_layers: int = 2
    draft_kv_heads: int = 4
    block: int = 8
    taps: tuple[int, ...] = (2, 4, 6)  # the inputs of these layers, as the file counts them

    # control tokens: 32 ids at the end of the vocabulary
    @property
    def bos(self) -> int:
        return self.vocab - 32

    @property
    def eos(self) -> int:
        return self.bos + 1

    @property
    def eot(self) -> int:
        return self.bos + 8

    @property
    def pad(self) -> int:
        return self.bos + 18

    @property
    def mask(self) -> int:
        return self.bos + 30

    def is_global(self, layer: int) -> bool:
        return layer % 4 == 3


Attend = Callable[["Layer", Tensor, Tensor, Tensor], Tensor]  # (layer, q, k, v), each [B, T, heads, head_dim]


def rms(x: Tensor, weight: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    y = x.float()
    y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * weight).to(x.dtype)


def rotary(s: Shape, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin, [n, head_dim]."""
    rate = s.theta ** (-torch.arange(0, s.head_dim, 2, dtype=torch.float64) / s.head_dim)
    angle = torch.arange(n, dtype=torch.float64)[:, None] * rate
    both = torch.cat([angle, angle], -1)
    return both.cos().float().to(device), both.sin().float().to(device)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [..., T, heads, head_dim]; cos and sin [..., T, head_dim]."""
    half = x.shape[-1] // 2
    y = x.float()
    turned = torch.cat([-y[..., half:], y[..., :half]], -1)
    return (y * cos.unsqueeze(-2) + turned * sin.unsqueeze(-2)).to(x.dtype)


def linear(n_in: int, n_out: int) -> nn.Linear:
    return nn.Linear(n_in, n_out, bias=False)


class Norm(nn.Module):
    """Only the weight: the norms differ in eps and in whether 1 is added."""

    def __init__(self, n: int, value: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((n,), value))


class Attention(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        wide = s.heads * s.head_dim
        self.q_proj, self.gate_proj, self.o_proj = linear(s.d, wide), linear(s.d, wide), linear(wide, s.d)
        self.k_proj, self.v_proj = (linear(s.d, s.kv_heads * s.head_dim) for _ in range(2))


class Mlp(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(s.d, s.ff), linear(s.d, s.ff), linear(s.ff, s.d)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, s: Shape, index: int) -> None:
        super().__init__()
        self.shape, self.index, self.is_global = s, index, s.is_global(index)
        self.self_attn, self.mlp = Attention(s), Mlp(s)
        self.input_layernorm, self.pre_feedforward_layernorm = Norm(s.d, 0.0), Norm(s.d, 0.0)
        self.post_attention_layernorm, self.post_feedforward_layernorm = Norm(s.d, -0.5), Norm(s.d, -0.5)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        s, at = self.shape, self.self_attn
        b, t, _ = x.shape
        h = rms(x, 1 + self.input_layernorm.weight, s.eps)
        q = rms(at.q_proj(h).view(b, t, s.heads, s.head_dim)) * s.query_scale
        k = rms(at.k_proj(h).view(b, t, s.kv_heads, s.head_dim))
        v = at.v_proj(h).view(b, t, s.kv_heads, s.head_dim)
        if not self.is_global:  # global layers know no positions
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = attend(self, q, k, v).reshape(b, t, -1) * torch.sigmoid(at.gate_proj(h))
        x = x + rms(at.o_proj(mixed), 1 + self.post_attention_layernorm.weight, s.post_eps)
        h = rms(x, 1 + self.pre_feedforward_layernorm.weight, s.eps)
        return x + rms(self.mlp(h), 1 + self.post_feedforward_layernorm.weight, s.post_eps)


class Target(nn.Module):
    def __init__(self, s: Shape, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.shape = s
        self.embed_tokens = nn.Embedding(s.vocab, s.d)
        self.layers = nn.ModuleList(Layer(s, i) for i in range(s.layers))
        self.norm = Norm(s.d, 1.0)
        self.lm_head = linear(s.d, s.vocab)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.normal_(
                    p, std={"embed_tokens.weight": 1.0, "lm_head.weight": 0.02}.get(name, p.shape[1] ** -0.5)
                )

    def hidden(
        self, ids: Tensor, cos: Tensor, sin: Tensor, attend: Attend, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, list[Tensor]]:
        """The last residual [B, T, d] and those at the taps (inputs of the layers `shape.taps`)."""
        x = rms(self.embed_tokens(ids).to(dtype), None, self.shape.eps)
        taps = []
        for layer in self.layers:
            if layer.index in self.shape.taps:
                taps.append(x)
            x = layer(x, cos, sin, attend)
        return x, taps

    def logits(self, x: Tensor) -> Tensor:
        return capped(self.lm_head(rms(x, self.norm.weight, self.shape.eps)), self.shape)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits [B, T, vocab] in one pass: the slow reference."""
        n = ids.shape[1]
        cos, sin = rotary(self.shape, n, ids.device)
        return self.logits(self.hidden(ids, cos, sin, masked(self.shape, n, ids.device))[0])


def capped(z: Tensor, s: Shape) -> Tensor:
    return s.cap * torch.tanh(z.float() * s.logit_scale / s.cap)


def masked(s: Shape, n: int, device: torch.device) -> Attend:
    """Attention of n tokens with an explicit mask."""
    i = torch.arange(n, device=device)
    causal = i[:, None] >= i
    near = causal & (i[:, None] - i < s.window)

    def attend(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        group = s.heads // s.kv_heads
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        mask = causal if layer.is_global else near
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)

    return attend


def blockwise(s: Shape, n: int, device: torch.device) -> Attend:
    """The same through flex_attention, which skips what the window hides; to be compiled, on a GPU."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    causal = create_block_mask(lambda b, h, q, k: q >= k, None, None, n, n, device=device)
    near = create_block_mask(
        lambda b, h, q, k: (q >= k) & (q - k < s.window), None, None, n, n, device=device
    )

    def attend(layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        mask = causal if layer.is_global else near
        return flex_attention(q, k, v, block_mask=mask, enable_gqa=True).transpose(1, 2)

    return attend


def fast_attention(s: Shape, n: int, device: torch.device) -> Attend:
    return blockwise(s, n, device) if device.type == "cuda" else masked(s, n, device)
