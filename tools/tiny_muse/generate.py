"""Many texts at once, with a KV cache: what the drafter learns from."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .target import Layer, Target, rotary


@torch.no_grad()
def generate(
    model: Target,
    prompts: Sequence[Sequence[int]],
    total: int,
    temperature: float | Sequence[float] = 0.0,
    *,
    min_p: float = 0.02,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """ids [B, total] (padded) and lengths [B], prompt and stop token included. Rows may have prompts of any length
    and temperatures of their own; all are fed from position 0 and forced to their prompt."""
    s = model.shape
    device = model.lm_head.weight.device
    b = len(prompts)
    rows = torch.full((b, total), s.pad, dtype=torch.long)
    for i, ids in enumerate(prompts):
        rows[i, : len(ids)] = torch.tensor(ids[:total])
    rows = rows.to(device)
    prompt_length = torch.tensor([len(ids) for ids in prompts], device=device)
    temperatures = torch.tensor(
        temperature if isinstance(temperature, Sequence) else [temperature] * b, device=device
    )
    random = torch.Generator(device=device).manual_seed(seed)
    keys = [torch.zeros(b, s.kv_heads, total, s.head_dim, device=device, dtype=dtype) for _ in model.layers]
    values = [torch.zeros_like(k) for k in keys]
    cos, sin = rotary(s, total, device)
    length = torch.full((b,), total, device=device)
    done = torch.zeros(b, dtype=torch.bool, device=device)
    for t in range(total - 1):

        def attend(layer: Layer, q: Tensor, k: Tensor, v: Tensor, t: int = t) -> Tensor:
            ks, vs = keys[layer.index], values[layer.index]
            ks[:, :, t], vs[:, :, t] = k[:, 0], v[:, 0]
            first = 0 if layer.is_global else max(0, t + 1 - s.window)
            q = q.reshape(b, s.kv_heads, s.heads // s.kv_heads, s.head_dim)
            return F.scaled_dot_product_attention(q, ks[:, :, first : t + 1], vs[:, :, first : t + 1])

        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            x, _ = model.hidden(rows[:, t : t + 1], cos[t : t + 1], sin[t : t + 1], attend, dtype)
            logits = model.logits(x)[:, 0]
        chosen = _choose(logits, temperatures, min_p, random)
        free = (t + 1 >= prompt_length) & ~done
        rows[:, t + 1] = torch.where(free, chosen, rows[:, t + 1])
        ended = free & ((chosen == s.eos) | (chosen == s.eot))
        length = torch.where(ended, t + 2, length)
        done |= ended
        if t % 16 == 15 and bool(done.all()):
            break
    return rows, length


def _choose(logits: Tensor, temperatures: Tensor, min_p: float, random: torch.Generator) -> Tensor:
    best = logits.argmax(-1)
    if not bool((temperatures > 0).any()):
        return best
    p = torch.softmax(logits / temperatures.clamp(min=1e-4)[:, None], -1)
    p = torch.where(p >= min_p * p.amax(-1, keepdim=True), p, 0)
    noise = torch.rand(p.shape, device=p.device, generator=random).clamp_(1e-10, 1 - 1e-7)
    return torch.where(temperatures > 0, (p.log() - (-noise.log()).log()).argmax(-1), best)
