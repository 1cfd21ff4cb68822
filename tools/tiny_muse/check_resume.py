"""Two steps of training and two more are four steps: the same weights, bit for bit. Exit code 1 if not.

Needs torch, which muser's tests do not have. Takes half a minute on a CPU.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from tools.tiny_muse import train


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        for name in ("train", "val"):
            np.save(data / f"{name}.npy", np.arange(2000, dtype=np.uint16) % 4000)
            np.save(data / f"{name}_starts.npy", np.arange(0, 1500, 100))
        common = ["--data", folder, "--steps", "4", "--batch", "1", "--length", "32", "--every", "2"]
        train.main([*common, "--out", str(data / "whole")])
        train.main([*common, "--out", str(data / "parts"), "--stop-at", "2"])
        train.main([*common, "--out", str(data / "parts"), "--resume"])
        whole, parts = (torch.load(data / name / "target.pt", weights_only=True) for name in ("whole", "parts"))
    same = whole.keys() == parts.keys() and all(torch.equal(whole[key], parts[key]) for key in whole)
    print("the same weights" if same else "other weights")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
