"""Trains the target. The order of the data depends on the seed and the step alone, so a run can be resumed.

    python -m tools.tiny_muse.train --data W/data --out W/run --seconds 200 [--resume]
    python -m tools.tiny_muse.train --data W/data --out W/run --steps 3000

With --seconds the number of steps is settled after a short calibration; a checkpoint keeps it. OUT/target.pt: the
weights. loss.csv, train.json: how it went.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from . import optimizer
from .corpus import READ_ONLY
from .target import Shape, Target, fast_attention, rotary


class Data:
    """Rows of tokens that begin where a document does."""

    def __init__(self, folder: Path, name: str, length: int, device: torch.device) -> None:
        ids = np.load(folder / f"{name}.npy")
        starts = np.load(folder / f"{name}_starts.npy")
        self.ids = torch.from_numpy(ids.view(np.int16)).to(device)
        self.starts = torch.from_numpy(starts[starts < len(ids) - length - 1]).to(device)
        self.span = torch.arange(length + 1, device=device)
        self.device = device

    def rows(self, n: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """inputs, wanted [n, length], and 1 where the wanted token is learned, else 0."""
        generator = torch.Generator(device=self.device).manual_seed(seed)
        chosen = torch.randint(len(self.starts), (n,), device=self.device, generator=generator)
        words = self.ids[self.starts[chosen][:, None] + self.span]
        ids = words.long() & (READ_ONLY - 1)
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), (words[:, 1:] >= 0).float()


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--every", type=int, default=50, help="steps between two points of the loss curve")
    parser.add_argument("--stop-at", type=int, default=0, help="leave at this step, with a checkpoint")
    parser.add_argument("--resume", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    a = parse(arguments)
    a.out.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    s = Shape()
    train, val = (Data(a.data, name, a.length, device) for name in ("train", "val"))
    model = Target(s, a.seed).to(device)
    adjust = optimizer.Optimizer(model)
    cos, sin = rotary(s, a.length, device)
    attend = fast_attention(s, a.length, device)
    half = torch.bfloat16 if device.type == "cuda" else torch.float32

    def loss_of(x: Tensor, y: Tensor, learned: Tensor) -> Tensor:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
            logits = model.logits(model.hidden(x, cos, sin, attend, half)[0])
        each = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
        return (each * learned.flatten()).sum() / learned.sum()

    loss = torch.compile(loss_of) if device.type == "cuda" else loss_of
    step, total, spent, curve = 0, a.steps, 0.0, []
    checkpoint = a.out / "checkpoint.pt"
    if a.resume and checkpoint.exists():
        state = optimizer.load(checkpoint, model, adjust, device)
        step, total, spent, curve = state["step"], state["total"], state["spent"], state["curve"]
        print(f"resumed at step {step}", flush=True)

    @torch.no_grad()
    def validate() -> float:
        return sum(float(loss(*val.rows(a.batch, 10**6 + k))) for k in range(4)) / 4

    began = time.time()
    loss(*train.rows(a.batch, 0)).backward()
    model.zero_grad(set_to_none=True)
    validate()
    _wait(device)
    print(f"{time.time() - began:.0f} s to compile; {len(train.ids) / 1e6:.0f} M tokens", flush=True)
    began, first, sum_, count = time.time(), step, torch.zeros((), device=device), 0
    while not total or step < total:
        if not total and step - first == 20:
            _wait(device)
            calibrated = time.time()
        if not total and step - first == 60:
            _wait(device)
            each = (time.time() - calibrated) / 40
            total = step + int((a.seconds - (time.time() - began)) / each / 1.02)
            print(f"{each * 1e3:.1f} ms a step: {total} steps", flush=True)
        value = loss(*train.rows(a.batch, a.seed * 10**7 + step))
        value.backward()
        adjust.step(step, total)
        sum_, count, step = sum_ + value.detach(), count + 1, step + 1
        if step % a.every == 0 or step == total:
            mean = float(sum_) / count
            sum_, count = torch.zeros((), device=device), 0
            checked = validate() if step % (5 * a.every) == 0 or step == total else None
            elapsed = time.time() - began + spent
            curve.append(
                (
                    step,
                    step * a.batch * a.length,
                    round(elapsed, 1),
                    round(mean, 5),
                    checked and round(checked, 5),
                )
            )
            if checked is not None:
                print(
                    f"step {step}/{total}  {elapsed:.0f} s  train {mean:.4f}  held out {checked:.4f}",
                    flush=True,
                )
        if step % (20 * a.every) == 0 or step in (total, a.stop_at):
            elapsed = time.time() - began + spent
            optimizer.save(checkpoint, model, adjust, step=step, total=total, spent=elapsed, curve=curve)
            if step == a.stop_at and step != total:
                return
    elapsed = time.time() - began + spent
    torch.save({k: v.float().cpu() for k, v in model.state_dict().items()}, a.out / "target.pt")
    with open(a.out / "loss.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "tokens", "seconds", "train", "held_out"])
        writer.writerows(curve)
    report = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": step,
        "tokens": step * a.batch * a.length,
        "seconds": round(elapsed, 1),
        "train_loss": curve[-1][3],
        "held_out_loss": curve[-1][4],
        "passes_over_the_corpus": round(step * a.batch * a.length / len(train.ids), 2),
        "seed": a.seed,
        "batch": a.batch,
        "length": a.length,
    }
    (a.out / "train.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report), flush=True)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
