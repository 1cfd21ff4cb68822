"""Trains the drafter on texts that the target writes itself, and measures how many tokens a verify accepts.

    python -m tools.tiny_muse.train_drafter --data W/data --target W/muse-tiny-Q4_K_M.gguf --out W/run --seconds 150

The target is read from its GGUF, so that the drafter sees the residuals of the weights that ship. Prompts are those
of the corpus (chats.prompt) under another seed; held-out ones are data/prompts.json. Loss: cross-entropy of the rows
of a block, the near ones first. OUT/drafter.pt, loss_drafter.csv, drafter.json.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

from . import chats, optimizer
from .drafter import Drafter
from .export import read_target
from .generate import generate
from .target import Shape, Target, capped, fast_attention, rotary

ROOM = 176  # tokens that a text gets after its prompt, at least


class Block(nn.Module):
    """Texts -> residuals at the taps -> drafts of blocks; one compiled graph."""

    def __init__(self, target: Target, drafter: Drafter, length: int, device: torch.device) -> None:
        super().__init__()
        self.shape: Shape = target.shape
        self.target, self.drafter, self.length = target, drafter, length
        self.attend = fast_attention(self.shape, length, device)
        self.cos, self.sin = rotary(self.shape, length + self.shape.block, device)
        self.half = torch.bfloat16 if device.type == "cuda" else torch.float32

    def taps(self, ids: Tensor) -> Tensor:
        with torch.no_grad(), self.autocast(ids):
            cos, sin = self.cos[: self.length], self.sin[: self.length]
            return torch.cat(self.target.hidden(ids, cos, sin, self.attend, self.half)[1], -1)

    def autocast(self, ids: Tensor) -> torch.autocast:
        return torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=self.half == torch.bfloat16)

    def logits(self, ids: Tensor, taps: Tensor, anchors: Tensor) -> Tensor:
        """[B, A, block - 1, vocab] for anchors [B, A]."""
        s = self.shape
        b, n = anchors.shape
        block = torch.full((b, n, s.block), s.mask, device=ids.device, dtype=torch.long)
        block[:, :, 0] = ids.gather(1, anchors)
        rows = self.target.embed_tokens(block.view(b, -1)).to(self.half)
        with self.autocast(ids):
            h = self.drafter(taps, rows, anchors, self.cos, self.sin).view(b, n, s.block, s.d)[:, :, 1:]
            return capped(F.linear(h, self.target.lm_head.weight), s)

    def forward(
        self, ids: Tensor, length: Tensor, anchors: Tensor, used: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The loss, and for each row of a block the share that equals the text."""
        z = self.logits(ids, self.taps(ids), anchors)
        at = anchors[:, :, None] + torch.arange(1, self.shape.block, device=ids.device)
        wanted = ids.gather(1, at.clamp(max=self.length - 1).flatten(1)).view(at.shape)
        inside = (at < length[:, None, None]) & used[:, :, None]
        each = F.cross_entropy(z.flatten(0, 2), wanted.flatten(), reduction="none").view(wanted.shape)
        loss = (each * inside * weight).sum() / (inside * weight).sum()
        return loss, ((z.argmax(-1) == wanted) & inside).sum((0, 1)) / inside.sum((0, 1))


def choose_anchors(
    prompt: Tensor, length: Tensor, total: int, n: int, random: torch.Generator
) -> tuple[Tensor, Tensor]:
    """n different positions of what the target wrote [B, n], and which of them are real (a short text has fewer)."""
    t = torch.arange(total, device=prompt.device)
    inside = (t >= prompt[:, None] - 1) & (t < length[:, None] - 1)
    score = torch.rand(inside.shape, device=prompt.device, generator=random) + inside
    top = score.topk(n, dim=1)
    return top.indices, top.values >= 1


@torch.no_grad()
def acceptance(block: Block, ids: Tensor, length: Tensor, prompt: Tensor) -> dict[str, object]:
    """The speculative loop over texts that are the target's own, where a draft is accepted if it equals the text."""
    s, total = block.shape, block.length
    drafts = torch.zeros(len(ids), total, s.block - 1, dtype=torch.long, device=ids.device)
    for first in range(0, len(ids), 64):
        some = ids[first : first + 64]
        taps = block.taps(some)
        for a in range(0, total, 64):
            anchors = torch.arange(a, min(a + 64, total), device=ids.device).expand(len(some), -1)
            drafts[first : first + 64, a : a + 64] = block.logits(some, taps, anchors).argmax(-1)
    proposed, text = drafts.cpu().numpy(), ids.cpu().numpy()
    verifies, written = 0, 0
    reached = np.zeros(s.block - 1)
    for row, (start, end) in enumerate(zip(prompt.tolist(), length.tolist(), strict=True)):
        at = start  # the anchor: the prompt's pass gave this token
        while at < end - 1:
            room = min(s.block - 1, end - 1 - at)
            same = 0
            while same < room and proposed[row, at, same] == text[row, at + 1 + same]:
                same += 1
            reached[:same] += 1
            gained = min(same + 1, end - 1 - at)
            at, written, verifies = at + gained, written + gained, verifies + 1
    return {
        "tokens_per_verify": round(written / max(1, verifies), 3),
        "texts": len(ids),
        "verifies": verifies,
        "tokens": written,
        "share_that_accepts_at_least": [round(float(r) / max(1, verifies), 3) for r in reached],
    }


def make_prompts(seed: int, n: int) -> list[str]:
    rng = random.Random(f"drafter {seed}")
    return [chats.prompt(rng) for _ in range(n)]


def encoded(tokenizer: Tokenizer, texts: list[str], longest: int) -> list[list[int]]:
    ids = [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    return [row for row in ids if len(row) <= longest]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--texts", type=int, default=24576)
    parser.add_argument("--together", type=int, default=24576, help="texts written at once")
    parser.add_argument("--length", type=int, default=576)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--anchors", type=int, default=64)
    parser.add_argument("--held-out", type=int, default=512)
    parser.add_argument("--seed", type=int, default=9)
    parser.add_argument("--every", type=int, default=50)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    a = parse(arguments)
    a.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    began = time.time()
    tokenizer = Tokenizer.from_file(str(a.data / "tokenizer.json"))
    target = read_target(a.target).to(device).requires_grad_(False)
    with ProcessPoolExecutor(8) as pool:
        shards = pool.map(make_prompts, range(a.seed * 100, a.seed * 100 + 8), [a.texts // 8] * 8)
        prompts = encoded(tokenizer, [text for shard in shards for text in shard], a.length - ROOM)
    ids, length, start = write(target, prompts, a, device)
    mean = float((length - start).float().mean())
    print(
        f"{time.time() - began:.0f} s: {len(ids)} texts, {mean:.0f} tokens each after the prompt", flush=True
    )
    for i in range(4):
        print(
            "   ",
            repr(tokenizer.decode(ids[i, : length[i]].tolist(), skip_special_tokens=False))[-700:],
            flush=True,
        )
    drafter = Drafter(target.shape, a.seed).to(device)
    block = Block(target, drafter, a.length, device)
    curve, spent = fit(block, ids, length, start, a, device)
    torch.save({k: v.float().cpu() for k, v in drafter.state_dict().items()}, a.out / "drafter.pt")
    with open(a.out / "loss_drafter.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "seconds", "loss", *(f"row_{j}" for j in range(1, target.shape.block))])
        writer.writerows(curve)
    report: dict[str, object] = {
        "parameters": sum(p.numel() for p in drafter.parameters()),
        "steps": curve[-1][0],
    }
    report |= {"seconds": round(spent, 1), "texts": len(ids), "seed": a.seed}
    held = encoded(tokenizer, json.loads((a.data / "prompts.json").read_text()), a.length - ROOM)[
        : a.held_out
    ]
    half = torch.bfloat16 if device.type == "cuda" else torch.float32
    both = generate(target, held + held, a.length, [0.0] * len(held) + [0.8] * len(held), dtype=half, seed=77)
    first = torch.tensor([len(p) for p in held], device=device)
    for name, rows in (("greedy", slice(0, len(held))), ("temperature_0.8", slice(len(held), None))):
        report[name] = acceptance(block, both[0][rows], both[1][rows], first)
    (a.out / "drafter.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report), f"{time.time() - began:.0f} s in all", flush=True)


def write(
    target: Target, prompts: list[list[int]], a: argparse.Namespace, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """What the target continues the prompts with: half of it greedy."""
    rng = random.Random(a.seed)
    half = torch.bfloat16 if device.type == "cuda" else torch.float32
    made = []
    for first in range(0, len(prompts), a.together):
        some = prompts[first : first + a.together]
        temperatures = [rng.choice((0.0, 0.0, 0.5, 0.9)) for _ in some]
        made.append(generate(target, some, a.length, temperatures, dtype=half, seed=a.seed + first))
    start = torch.tensor([len(p) for p in prompts], device=device)
    return torch.cat([x for x, _ in made]), torch.cat([n for _, n in made]), start


def fit(
    block: Block, ids: Tensor, length: Tensor, start: Tensor, a: argparse.Namespace, device: torch.device
) -> tuple[list[tuple], float]:
    run = torch.compile(block) if device.type == "cuda" else block
    adjust = optimizer.Optimizer(block.drafter, hold=0.3)
    weight = torch.exp(-torch.arange(block.shape.block - 1, device=device) / 4.0)

    def step_of(step: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator(device=device).manual_seed(a.seed * 10**7 + step)
        rows = torch.randint(len(ids), (a.batch,), device=device, generator=generator)
        anchors, used = choose_anchors(start[rows], length[rows], a.length, a.anchors, generator)
        return run(ids[rows], length[rows], anchors, used, weight)

    step_of(0)[0].backward()
    block.drafter.zero_grad(set_to_none=True)
    _wait(device)
    began, step, total, curve = time.time(), 0, a.steps, []
    while not total or step < total:
        if not total and step == 20:
            _wait(device)
            calibrated = time.time()
        if not total and step == 60:
            _wait(device)
            each = (time.time() - calibrated) / 40
            total = step + int((a.seconds - (time.time() - began)) / each / 1.02)
            print(f"{each * 1e3:.1f} ms a step: {total} steps", flush=True)
        loss, same = step_of(step)
        loss.backward()
        adjust.step(step, total)
        step += 1
        if step % a.every == 0 or step == total:
            curve.append(
                (
                    step,
                    round(time.time() - began, 1),
                    round(loss.item(), 4),
                    *(round(float(x), 4) for x in same),
                )
            )
            if step % (10 * a.every) == 0 or step == total:
                print(
                    "step {}  {} s  loss {}  equal to the text: ".format(*curve[-1][:3]),
                    *curve[-1][3:],
                    flush=True,
                )
    return curve, time.time() - began


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
