"""The loss curves of both trainings as a picture.

python -m tools.tiny_muse.plot --run W/run --out docs/tiny-muse/loss.png        needs matplotlib
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    a = parser.parse_args()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6))
    rows = read(a.run / "loss.csv")
    millions = [int(row["tokens"]) / 1e6 for row in rows]
    left.plot(millions, [float(row["train"]) for row in rows], lw=0.9, label="training")
    checked = [(x, float(row["held_out"])) for x, row in zip(millions, rows, strict=True) if row["held_out"]]
    left.plot(*zip(*checked, strict=True), "o-", ms=3, lw=0.9, label="held out")
    left.set(
        xlabel="tokens seen (millions)",
        ylabel="loss (nats a learned token)",
        ylim=(0.16, 0.24),
        title="target",
    )
    left.legend()
    rows = read(a.run / "loss_drafter.csv")
    for name in [key for key in rows[0] if key.startswith("row_")]:
        share = [
            sum(float(row[name]) for row in rows[max(0, i - 9) : i + 1]) / min(10, i + 1)
            for i in range(len(rows))
        ]
        right.plot([float(row["seconds"]) for row in rows], share, lw=0.9, label=name.replace("_", " "))
    right.set(
        xlabel="seconds",
        ylabel="share equal to the text",
        ylim=(0.8, 1.0),
        title="drafter: rows of a block, mean of 10 points",
    )
    right.legend(fontsize=7, ncols=2)
    for axis in (left, right):
        axis.grid(alpha=0.3)
    figure.tight_layout()
    a.out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(a.out, dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    main()
