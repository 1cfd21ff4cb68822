"""The DFlash drafter in plain PyTorch: it proposes a block of tokens at once.

A block is the last token (the anchor) and masks after it. Its rows see each other and the target's residuals at the
taps for every position before the anchor; row j proposes the token j positions after the anchor. It has no embedding
and no head: both are the target's. State-dict names are those of transformers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .target import Mlp, Norm, Shape, linear, rms, rotate


class DraftAttention(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        wide, narrow = s.heads * s.head_dim, s.draft_kv_heads * s.head_dim
        self.q_proj, self.o_proj = linear(s.d, wide), linear(wide, s.d)
        self.k_proj, self.v_proj = linear(s.d, narrow), linear(s.d, narrow)
        self.q_norm, self.k_norm = Norm(s.head_dim, 1.5), Norm(s.head_dim, 1.5)


class DraftLayer(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.shape = s
        self.self_attn, self.mlp = DraftAttention(s), Mlp(s)
        self.input_layernorm, self.post_attention_layernorm = Norm(s.d, 1.0), Norm(s.d, 1.0)

    def forward(
        self,
        x: Tensor,
        context: Tensor,
        at: tuple[Tensor, Tensor],
        keys_at: tuple[Tensor, Tensor],
        mask: Tensor,
    ) -> Tensor:
        """x [B, N, d] rows of blocks, context [B, T, d]; at, keys_at: cos and sin of the rows, and of both together."""
        s, attn = self.shape, self.self_attn
        b, n, _ = x.shape
        h = rms(x, self.input_layernorm.weight, s.eps)
        both = torch.cat([context, h], 1)
        q = rms(attn.q_proj(h).view(b, n, s.heads, s.head_dim), attn.q_norm.weight, s.eps)
        k = rms(attn.k_proj(both).view(b, -1, s.draft_kv_heads, s.head_dim), attn.k_norm.weight, s.eps)
        v = attn.v_proj(both).view(b, -1, s.draft_kv_heads, s.head_dim)
        group = s.heads // s.draft_kv_heads
        q, k, v = rotate(q, *at).transpose(1, 2), rotate(k, *keys_at).transpose(1, 2), v.transpose(1, 2)
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None]).transpose(1, 2)
        x = x + attn.o_proj(mixed.reshape(b, n, -1))
        return x + self.mlp(rms(x, self.post_attention_layernorm.weight, s.eps))


class Encoder(nn.Module):
    """Makes one context vector of the taps."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.fc, self.output_norm_enc = linear(s.d * len(s.taps), s.d), Norm(s.d, 1.0)


class Drafter(nn.Module):
    def __init__(self, s: Shape, seed: int = 1) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.shape = s
        self.layers = nn.ModuleList(DraftLayer(s) for _ in range(s.draft_layers))
        self.norm, self.encoder = Norm(s.d, 1.0), Encoder(s)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                small = 0.5 if "o_proj" in name or "down_proj" in name else 1.0
                nn.init.normal_(p, std=small * p.shape[1] ** -0.5)

    def mask(self, anchors: Tensor, n_context: int) -> Tensor:
        """bool [B, A * block, n_context + A * block] for anchors [B, A]: the context before the anchor and inside
        the window, and the row's own block."""
        block = self.shape.block
        j = torch.arange(block, device=anchors.device)
        row = (anchors[:, :, None] + j).flatten(1)
        anchor = anchors.repeat_interleave(block, 1)
        k = torch.arange(n_context, device=anchors.device)
        context = (k < anchor[:, :, None]) & (row[:, :, None] - k < self.shape.window)
        of = torch.arange(anchors.shape[1], device=anchors.device).repeat_interleave(block)
        own = (of[:, None] == of)[None].expand(len(anchors), -1, -1)
        return torch.cat([context, own], 2)

    def forward(self, taps: Tensor, rows: Tensor, anchors: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """taps [B, T, taps * d], rows [B, A * block, d] (raw embeddings), anchors [B, A] positions.
        Returns what the target's head takes, [B, A * block, d]."""
        s = self.shape
        b, t, _ = taps.shape
        context = rms(self.encoder.fc(taps), self.encoder.output_norm_enc.weight, s.eps)
        position = (anchors[:, :, None] + torch.arange(s.block, device=anchors.device)).flatten(1)
        everywhere = torch.cat([torch.arange(t, device=position.device).expand(b, t), position], 1)
        at, keys_at = (cos[position], sin[position]), (cos[everywhere], sin[everywhere])
        mask = self.mask(anchors, t)
        x = rows
        for layer in self.layers:
            x = layer(x, context, at, keys_at, mask)
        return rms(x, self.norm.weight, s.eps)
