"""The tables behind a vocabulary, compared with a list and a dict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muser._muser import StringIndex, Strings


@given(st.lists(st.text(max_size=12), unique=True, max_size=200), st.lists(st.text(max_size=12), max_size=20))
def test_an_index_finds_what_a_dict_finds(texts: list[str], others: list[str]) -> None:
    strings = Strings(texts)
    assert [strings[i] for i in range(len(strings))] == texts
    index = StringIndex(strings)
    wanted = {text: i for i, text in enumerate(texts) if text}
    assert index.duplicate is None
    for text in texts + others:
        assert index.find(text) == wanted.get(text)


def test_two_numbers_of_one_text_are_reported_and_empty_texts_are_not() -> None:
    assert StringIndex(Strings(["", "a", "b", "", "a"])).duplicate == (1, 4)
    assert StringIndex(Strings(["", "a", ""])).duplicate is None


def test_text_is_found_by_its_beginning() -> None:
    assert Strings(["<a>", "a", "<", "", " <"]).starting_with("<") == [0, 2]


@pytest.mark.parametrize("index", [-1, 2])
def test_a_number_out_of_range_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError):
        Strings(["a", "b"])[index]


def test_a_lone_surrogate_is_in_no_vocabulary() -> None:
    assert StringIndex(Strings(["a"])).find("\ud800") is None
