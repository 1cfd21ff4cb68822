"""Token ids equal those of transformers, on a random Muse Glimmer's vocabulary.

tests/data/text/transformers_random_muse.json holds ids that transformers' tokenizer gave, control tokens parsed.
"""

import json
from pathlib import Path

import pytest

from muser.text import Tokenizer

DATA = Path(__file__).parent / "data" / "text"
CASES = json.loads((DATA / "transformers_random_muse.json").read_text())


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(json.loads((DATA / "vocabulary_random_muse.json").read_text()))


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_ids_are_those_of_transformers(tokenizer: Tokenizer, case: dict) -> None:
    assert tokenizer.encode(case["text"], add_bos=False, parse_special=True) == case["ids"]


def test_only_the_end_of_a_text_or_turn_stops_muse(tokenizer: Tokenizer) -> None:
    names = {tokenizer.token_text(token) for token in tokenizer.stop_ids}
    assert names == {"<|end_of_text|>", "<|eot|>"}
    assert tokenizer.stop_ids == {tokenizer.eos_id, tokenizer.eot_id}
