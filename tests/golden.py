"""Checks a file of the trained tiny Muse against tests/data/golden.json: 8 prompts, 48 greedy ids each.

    python -m tests.golden muse-tiny-f16.gguf

A command and not a test because the float16 file (21 MB) is not in the repository. Runs with float32 keys and
values: some of these choices are between names whose logits differ by 0.003.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from engines import DATA, greedy, open_engine


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__)
        return 2
    wrong = 0
    for entry in json.loads((DATA / "golden.json").read_text())["prompts"]:
        ids = greedy(open_engine(Path(arguments[0])), entry["prompt_ids"], len(entry["greedy_ids"]))
        same = next(
            (i for i, (a, b) in enumerate(zip(ids, entry["greedy_ids"], strict=True)) if a != b), len(ids)
        )
        wrong += same < len(ids)
        print(f"{same:3} of {len(ids)} ids equal   {entry['prompt'][-80:]!r}")
    print("all golden ids equal" if not wrong else f"{wrong} prompts differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
