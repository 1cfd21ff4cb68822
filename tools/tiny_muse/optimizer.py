"""Muon for matrices beside AdamW for embeddings, head and norms, one schedule for both, and checkpoints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn


def orthogonal(g: Tensor, steps: int = 5) -> Tensor:
    """The nearest matrix with orthogonal rows or columns, about, by a quintic Newton-Schulz iteration (Jordan 2024)."""
    x = g.bfloat16()
    tall = x.size(-2) > x.size(-1)
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum, made orthogonal. Matrices of one shape are stepped together."""

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, momentum: float = 0.95, decay: float = 0.02
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = {}
            for p in group["params"]:
                by_shape.setdefault(p.shape, []).append(p)
            for shape, params in by_shape.items():
                grads = torch.stack([p.grad for p in params]).float()
                state = self.state[params[0]]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(grads)
                state["momentum"].lerp_(grads, 1 - group["momentum"])
                update = orthogonal(grads.lerp(state["momentum"], group["momentum"])).float()
                torch._foreach_mul_(params, 1 - group["lr"] * group["decay"])
                scale = -group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                torch._foreach_add_(params, list(update.unbind(0)), alpha=scale)


class Optimizer:
    """All parameters of a model, with a warm-up, a plateau and a cosine down to 1 %."""

    def __init__(
        self, model: nn.Module, *, matrix_lr: float = 0.02, norm_lr: float = 0.005, hold: float = 0.35
    ) -> None:
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        tables = {"embed_tokens.weight": 0.02, "lm_head.weight": 0.004}
        fused = next(model.parameters()).is_cuda
        groups = [{"params": [p], "lr": tables[n], "betas": (0.9, 0.95)} for n, p in named if n in tables]
        groups.append({"params": [p for _, p in named if p.ndim == 1], "lr": norm_lr, "betas": (0.9, 0.98)})
        self.clipped = [p for n, p in named if n in tables]
        self.parts: Sequence[torch.optim.Optimizer] = (
            Muon([p for n, p in named if p.ndim == 2 and n not in tables], matrix_lr),
            torch.optim.AdamW(groups, weight_decay=0.0, eps=1e-10, fused=fused),
        )
        self.first = [[g["lr"] for g in part.param_groups] for part in self.parts]
        self.hold = hold

    def scale(self, step: int, total: int) -> float:
        x = step / total
        if x < 0.02:
            return (step + 1) / (0.02 * total + 1)
        if x < self.hold:
            return 1.0
        return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (x - self.hold) / (1 - self.hold)))

    def step(self, step: int, total: int) -> None:
        scale = self.scale(step, total) if total else min(1.0, (step + 1) / 100)
        if self.clipped:
            torch.nn.utils.clip_grad_norm_(self.clipped, 1.0)
        for part, rates in zip(self.parts, self.first, strict=True):
            for group, rate in zip(part.param_groups, rates, strict=True):
                group["lr"] = rate * scale
            part.step()
            part.zero_grad(set_to_none=True)


def save(path: Path, model: nn.Module, optimizer: Optimizer, **progress: object) -> None:
    whole = path.with_suffix(".new")
    torch.save(
        {"model": model.state_dict(), "optimizer": [p.state_dict() for p in optimizer.parts], **progress},
        whole,
    )
    whole.replace(path)


def load(path: Path, model: nn.Module, optimizer: Optimizer, device: torch.device) -> dict:
    state = torch.load(path, map_location=device, weights_only=False)
    model.load_state_dict(state["model"])
    for part, saved in zip(optimizer.parts, state["optimizer"], strict=True):
        part.load_state_dict(saved)
    return state
