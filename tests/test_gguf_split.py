"""Split models: NAME-00001-of-00003.gguf is opened by its first part, and every part must fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from raw_gguf import I32, STRING, T_F32, U16, Raw

from muser._muser import GgufFile
from muser.errors import FileAccessError, ModelFormatError

N = 3


def name_of(number: int, count: int = N) -> str:
    return f"model-{number + 1:05d}-of-{count:05d}.gguf"


def part(number: int, count: int = N, total: int = 2 * N) -> Raw:
    """Part `number` with two tensors, keyed as llama.cpp's gguf-split does it."""
    raw = (
        Raw()
        .key("split.no", U16, number)
        .key("split.count", U16, count)
        .key("split.tensors.count", I32, total)
    )
    if number == 0:
        raw.key("general.architecture", STRING, "llama")
    for i in range(2):
        raw.tensor(f"t{2 * number + i}", T_F32, [4], bytes([number, i] * 8))
    return raw


def write_parts(folder: Path, change: Callable[[int], Raw | None] = part) -> Path:
    for number in range(N):
        raw = change(number)
        if raw is not None:
            (folder / name_of(number)).write_bytes(raw.bytes())
    return folder / name_of(0)


def test_a_split_model_is_one_model(tmp_path: Path) -> None:
    path = write_parts(tmp_path)
    file = GgufFile(path)
    assert file.path == str(path)
    assert file.files == [str(tmp_path / name_of(number)) for number in range(N)]
    assert [row[0] for row in file.tensors()] == [f"t{i}" for i in range(2 * N)]
    for i in range(2 * N):
        assert file.tensor_data(f"t{i}").tobytes() == bytes([i // 2, i % 2] * 8)
    assert file.get("general.architecture") == "llama" and file.get("split.no") == 0


def test_files_that_the_gguf_writer_splits(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "big.gguf", "llama", split_max_tensors=2)
    tensors = {f"blk.{i}.w": np.full(10 + i, i, np.float32) for i in range(5)}
    for name, data in tensors.items():
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GgufFile(tmp_path / "big-00001-of-00003.gguf")
    assert len(file.files) == 3
    assert {name for name, *_ in file.tensors()} == set(tensors)
    for name, data in tensors.items():
        assert np.array_equal(file.tensor_data(name).view(np.float32), data)


def test_the_first_part_may_have_no_tensors(tmp_path: Path) -> None:
    def change(number: int) -> Raw:
        raw = part(number, total=4)
        if number == 0:
            raw.records, raw.data = [], b""
        return raw

    assert len(GgufFile(write_parts(tmp_path, change)).tensors()) == 4


def test_a_split_count_of_one_needs_no_name(tmp_path: Path) -> None:
    path = tmp_path / "whole.gguf"
    path.write_bytes(part(0, count=1, total=2).bytes())
    assert len(GgufFile(path).tensors()) == 2


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    path = write_parts(tmp_path, lambda number: None if number == 1 else part(number))
    with pytest.raises(FileAccessError, match="part 2 of 3 cannot be opened: .*No such file") as error:
        GgufFile(path)
    assert error.value.path == str(tmp_path / name_of(1))


def test_opening_a_later_part_names_the_first(tmp_path: Path) -> None:
    write_parts(tmp_path)
    with pytest.raises(
        ModelFormatError, match=r"part 3 of 3 .* open its first part, .*-00001-of-00003\.gguf"
    ) as error:
        GgufFile(tmp_path / name_of(2))
    assert error.value.path == str(tmp_path / name_of(2)) and error.value.offset == 24


def test_a_renamed_first_part_says_why_the_others_cannot_be_found(tmp_path: Path) -> None:
    path = tmp_path / "renamed.gguf"
    write_parts(tmp_path).rename(path)
    with pytest.raises(
        ModelFormatError, match="first of 3 parts, but its name does not end in -00001-of-00003.gguf"
    ):
        GgufFile(path)


def wrong_number(number: int) -> Raw:
    return part(2 if number == 1 else number)


def wrong_count(number: int) -> Raw:
    return part(number, count=4 if number == 2 else N)


def wrong_total(number: int) -> Raw:
    return part(number, total=7)


def no_total(number: int) -> Raw:
    raw = part(number)
    del raw.entries[2]
    return raw


def no_keys(number: int) -> Raw:
    raw = part(number)
    if number == 1:
        raw.entries = []
    return raw


def same_tensor(number: int) -> Raw:
    return part(number).tensor("t0", T_F32, [4], bytes(16)) if number == 2 else part(number)


def same_tensor_right_total(number: int) -> Raw:
    raw = part(number, total=7)
    return raw.tensor("t0", T_F32, [4], bytes(16)) if number == 2 else raw


def huge_count(number: int) -> Raw:
    raw = part(number)
    raw.entries[1] = Raw().key("split.count", I32, 100000).entries[0]
    return raw


@pytest.mark.parametrize(
    ("change", "message", "at"),
    [
        (wrong_number, "part 2 of 3: key 'split.no' is 2, not 1", 1),
        (wrong_count, "part 3 of 3: key 'split.count' is 4, not 3", 2),
        (wrong_total, "'split.tensors.count' is 7, but the parts have 6 tensors", 0),
        (no_total, "no key 'split.tensors.count'", 0),
        (no_keys, "part 2 of 3 has no key 'split.no'", 1),
        (same_tensor, "'split.tensors.count' is 6, but the parts have 7", 0),
        (same_tensor_right_total, "tensor 't0' is in an earlier part of the model too", 2),
        (huge_count, "'split.count' is 100000, above 99999", 0),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    tmp_path: Path, change: Callable[[int], Raw], message: str, at: int
) -> None:
    path = write_parts(tmp_path, change)
    with pytest.raises(ModelFormatError, match=message) as error:
        GgufFile(path)
    assert error.value.path == str(tmp_path / name_of(at)) and error.value.offset is not None


@pytest.mark.parametrize("number", range(N))
def test_a_cut_part_is_refused_by_its_own_name(tmp_path: Path, number: int) -> None:
    path = write_parts(tmp_path)
    broken = tmp_path / name_of(number)
    raw = broken.read_bytes()
    for length in range(len(raw) - 16):  # the last 16 bytes are padding
        broken.write_bytes(raw[:length])
        with pytest.raises(ModelFormatError) as error:
            GgufFile(path)
        assert error.value.path == str(broken)
