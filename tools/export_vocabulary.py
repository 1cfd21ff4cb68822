"""Writes the tokenizer metadata of a GGUF as JSON, so that a test can have a vocabulary without the weights.

python tools/export_vocabulary.py model.gguf tests/data/text/vocabulary_NAME.json
"""

from __future__ import annotations

import json
import sys

from muser._muser import GgufFile


def tokenizer_metadata(path: str) -> dict[str, object]:
    metadata = GgufFile(path).metadata()
    kept = {key: value for key, value in metadata.items() if key.startswith("tokenizer.ggml.")}
    return {"general.architecture": metadata["general.architecture"], **kept}


def main() -> None:
    source, target = sys.argv[1:]
    with open(target, "w") as file:
        json.dump(tokenizer_metadata(source), file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
