"""Writes tests/data/chat/rendered.json: what transformers' apply_chat_template makes of the test conversations.

    python -m venv oracle && oracle/bin/pip install transformers jinja2
    oracle/bin/python tools/record_chat.py

muser itself is not needed, nor is a model.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "chat"
sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    from chat_conversations import FAMILIES, conversations
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    rendered: dict[str, object] = {
        "made by": f"transformers {importlib.metadata.version('transformers')}, "
        f"jinja2 {importlib.metadata.version('jinja2')}"
    }
    for family, (bos, eos, _) in FAMILIES.items():
        special = {name: text for name, text in (("bos_token", bos), ("eos_token", eos)) if text is not None}
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), **special)
        tokenizer.chat_template = (DATA / f"{family}.jinja").read_text()
        texts: list[str | None] = []
        for one in conversations(family):
            try:
                texts.append(
                    tokenizer.apply_chat_template(
                        one["messages"],
                        tools=one["tools"],
                        tokenize=False,
                        add_generation_prompt=one["add_generation_prompt"],
                        **one["variables"],
                    )
                )
            except Exception as error:  # the template refuses, or cannot do it
                print(f"{family}, {len(texts)}: {type(error).__name__}: {error}")
                texts.append(None)
        print(f"{family}: {sum(text is not None for text in texts)} of {len(texts)}")
        rendered[family] = texts
    (DATA / "rendered.json").write_text(json.dumps(rendered, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
