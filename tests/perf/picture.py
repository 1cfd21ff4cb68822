"""Tokens a second against the number of streams, all sides, one panel a file.

    python -m tests.perf.picture FIGURES.json [FIGURES.json ...] OUT.png

FIGURES.json are records of tests.perf.cpu. Needs matplotlib (extra `bench`). OUT may also be .svg.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

from tests.perf.names import ITSELF, LLAMA, OPENVINO, name_of
from tests.perf.record import Record, read

WIDTHS = (1, 2, 3, 4)
COLOURS = {ITSELF: "#0b6e4f", LLAMA: "#c8553d", OPENVINO: "#4c72b0"}
PANEL, LEGEND = (2.7, 3.0), 1.9  # inches


def lines(record: Record) -> dict[str, dict[int, float]]:
    """side -> width -> median tokens/s of all streams together."""
    found: dict[str, dict[int, float]] = {}
    for result in record.results:
        if result.job.kind == "group":
            for side, figures in result.figures.items():
                found.setdefault(side, {})[result.job.width] = median(figures)
    return found


def panel(axes, record: Record) -> None:
    variants: dict[str, int] = {}  # of a side so far: the first is solid
    for side, by_width in lines(record).items():
        name = name_of(side)
        dashes = ("-", "--", ":")[variants.get(name, 0) % 3]
        variants[name] = variants.get(name, 0) + 1
        widths = sorted(by_width)
        axes.plot(
            widths,
            [by_width[w] for w in widths],
            dashes,
            color=COLOURS.get(name),
            linewidth=2.6 if name == ITSELF else 1.6,
            marker="o",
            markersize=5 if name == ITSELF else 3.5,
            label=side,
        )
    axes.set_title(" ".join(record.model).strip() or record.file, fontsize=11)
    axes.set_xticks(WIDTHS)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def draw(records: list[Record], target: Path) -> None:
    shown = [record for record in records if lines(record)]
    if not shown:
        raise SystemExit("picture: no record has packed decode (--jobs group)")
    figure, panels = plt.subplots(
        1, len(shown), figsize=(PANEL[0] * len(shown) + LEGEND, PANEL[1]), squeeze=False, layout="constrained"
    )
    for axes, record in zip(panels[0], shown, strict=True):
        panel(axes, record)
    panels[0][0].set_ylabel("tokens/s, all streams together")
    figure.supxlabel(f"streams side by side  ({shown[0].cpu}, {shown[0].threads} threads)", fontsize=10)
    sides = {
        label: handle
        for axes in panels[0]
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(sides.values(), sides.keys(), loc="outside right center", frameon=False)
    figure.savefig(target, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figures", type=Path, nargs="+")
    parser.add_argument("target", type=Path)
    a = parser.parse_args()
    draw(read(a.figures), a.target)


if __name__ == "__main__":
    main()
