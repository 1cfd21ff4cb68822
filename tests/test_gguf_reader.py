"""The GGUF reader: every value of a valid file comes back as it was written."""

from __future__ import annotations

import math
import os
import struct
import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quant_blocks import ALL_TYPES, block_size
from raw_gguf import ARRAY, BOOL, F32, F64, FORMATS, I8, I16, I32, I64, STRING, T_F32, U8, U16, U32, U64, Raw
from toy import ARCHITECTURES, write_toy

from muser._muser import GgufFile
from muser.errors import FileAccessError, ModelFormatError, ParameterError


def parse(tmp_path: Path, raw: bytes) -> GgufFile:
    path = tmp_path / "model.gguf"
    path.write_bytes(raw)
    return GgufFile(path)


SCALARS = [("u8", 255), ("u16", 65535), ("u32", 2**32 - 1), ("u64", 2**64 - 1), ("i8", -128), ("i16", -32768),
           ("i32", -(2**31)), ("i64", -(2**63)), ("f32", 1.5), ("f64", math.pi), ("bool", True), ("no", False),
           ("text", "naïve 日本 😀")]  # fmt: skip
ADDERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64", "bool", "bool",
          "string"]  # fmt: skip
ARRAYS = {"ints": [1, -2, 3], "floats": [0.5, -1.5], "bools": [True, False, True], "strings": ["a", "", "é"],
          "nested": [[1, 2], [3], [4, 5, 6]], "deep": [[["x"], ["y", "z"]], [["w"]]]}  # fmt: skip


@pytest.mark.parametrize("version", [2, 3])
def test_files_of_the_gguf_writer_round_trip(tmp_path: Path, version: int) -> None:
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for (key, value), adder in zip(SCALARS, ADDERS, strict=True):
        getattr(writer, f"add_{adder}")(key, value)
    for key, value in ARRAYS.items():
        writer.add_array(key, value)
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    writer.add_tensor("m", matrix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    raw = bytearray(path.read_bytes())
    struct.pack_into("<I", raw, 4, version)
    file = parse(tmp_path, raw)
    expected = dict(SCALARS) | ARRAYS | {"general.architecture": "llama"}
    assert file.version == version and file.alignment == 32
    metadata = file.metadata()
    assert {key: metadata[key] for key in expected} == expected
    assert all(file.get(key) == value for key, value in expected.items())
    assert {key: type(metadata[key]) for key in ("bool", "u8", "f32")} == {
        "bool": bool,
        "u8": int,
        "f32": float,
    }
    [(name, kind, shape, offset, nbytes)] = file.tensors()
    assert (name, kind, shape, nbytes) == ("m", "F32", (4, 3), 48)
    assert np.array_equal(file.tensor_data("m").view(np.float32), matrix.ravel())
    assert path.read_bytes()[offset : offset + nbytes] == matrix.tobytes()


INTEGERS = {U8: (0, 2**8 - 1), U16: (0, 2**16 - 1), U32: (0, 2**32 - 1), U64: (0, 2**64 - 1), I8: (-(2**7), 2**7 - 1),
            I16: (-(2**15), 2**15 - 1), I32: (-(2**31), 2**31 - 1), I64: (-(2**63), 2**63 - 1)}  # fmt: skip


def scalars(kind: int) -> st.SearchStrategy[Any]:
    if kind in INTEGERS:
        return st.integers(*INTEGERS[kind])
    if kind == BOOL:
        return st.booleans()
    if kind == STRING:
        return st.binary(max_size=12) | st.text(max_size=8).map(str.encode)
    return st.floats(width=32 if kind == F32 else 64, allow_nan=False)


def arrays(depth: int) -> st.SearchStrategy[tuple[int, list[Any]]]:
    def of(kind: int) -> st.SearchStrategy[tuple[int, list[Any]]]:
        items = arrays(depth - 1) if kind == ARRAY else scalars(kind)
        return st.lists(items, max_size=4).map(lambda values: (kind, values))

    kinds = [*FORMATS, STRING] + ([ARRAY] if depth > 1 else [])
    return st.sampled_from(kinds).flatmap(of)


VALUES = st.sampled_from([*FORMATS, STRING]).flatmap(lambda k: scalars(k).map(lambda v: (k, v))) | arrays(
    3
).map(lambda value: (ARRAY, value))


def as_python(kind: int, value: Any) -> Any:
    """What the reader must give for a value of the strategies above."""
    if kind == ARRAY:
        return [as_python(value[0], item) for item in value[1]]
    if kind == STRING:
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value


KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.dictionaries(KEYS, VALUES, max_size=6), version=st.sampled_from([2, 3]))
def test_any_metadata_comes_back(tmp_path: Path, values: dict[str, tuple[int, Any]], version: int) -> None:
    raw = Raw(version=version)
    for key, (kind, value) in values.items():
        raw.key(key, kind, value)
    file = parse(tmp_path, raw.bytes())
    expected = {key: as_python(kind, value) for key, (kind, value) in values.items()}
    assert file.metadata() == expected
    assert list(file.metadata()) == list(expected)  # file order
    for key, value in expected.items():
        assert file.get(key) == value
        if isinstance(value, list):
            assert len(file.get(key, limit=2)) == min(len(value), 2)
    assert [(key, count) for key, _, count in file.entries()] == [
        (key, len(value) if isinstance(value, list) else None) for key, value in expected.items()
    ]


def test_arrays_may_nest_to_depth_8(tmp_path: Path) -> None:
    value: tuple[int, list[Any]] = (U8, [7])
    for _ in range(7):
        value = (ARRAY, [value])
    assert parse(tmp_path, Raw().key("k", ARRAY, value).bytes()).get("k") == [[[[[[[[7]]]]]]]]


def test_a_missing_key_gives_the_default(tmp_path: Path) -> None:
    file = parse(tmp_path, Raw().key("k", F64, 1.0).bytes())
    assert file.get("nothing") is None and file.get("nothing", 5) == 5
    with pytest.raises(KeyError):
        file.tensor_data("nothing")


@pytest.mark.parametrize("alignment", [8, 32, 64, 4096, 1 << 20])
def test_the_alignment_key_moves_the_data(tmp_path: Path, alignment: int) -> None:
    raw = Raw(alignment=alignment).key("general.alignment", U32, alignment)
    raw.tensor("a", T_F32, [3], b"abcdefghijkl").tensor("b", T_F32, [1], b"mnop")
    file = parse(tmp_path, raw.bytes())
    assert file.alignment == alignment
    assert [offset % alignment for *_, offset, _ in file.tensors()] == [0, 0]
    assert file.tensor_data("a").tobytes() == b"abcdefghijkl" and file.tensor_data("b").tobytes() == b"mnop"


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("quant", ["F32", "BF16", "Q8_0", "Q4_K", "IQ4_XS"])
def test_toy_models_read_like_the_gguf_package_reads_them(tmp_path: Path, arch: str, quant: str) -> None:
    path = tmp_path / "toy.gguf"
    write_toy(path, arch, quant)
    file, oracle = GgufFile(path), gguf.GGUFReader(path)
    theirs = {name: field.contents() for name, field in oracle.fields.items() if not name.startswith("GGUF.")}
    assert file.metadata() == theirs
    assert [row[:4] for row in file.tensors()] == [
        (t.name, t.tensor_type.name, tuple(map(int, t.shape)), t.data_offset) for t in oracle.tensors
    ]
    for tensor in oracle.tensors:
        assert file.tensor_data(tensor.name).tobytes() == tensor.data.tobytes()


@pytest.mark.parametrize("type_name", ALL_TYPES)
@pytest.mark.parametrize("extents", [(1,), (2, 3), (1, 2, 2), (2, 1, 2, 3)])
def test_sizes_of_every_type_in_one_to_four_dimensions(
    tmp_path: Path, type_name: str, extents: tuple[int, ...]
) -> None:
    elements, size = block_size(type_name)
    nbytes = size * math.prod(extents)
    data = np.random.default_rng(0).bytes(nbytes)
    shape = [elements * extents[0], *extents[1:]]
    file = parse(tmp_path, Raw().tensor("w", int(gguf.GGMLQuantizationType[type_name]), shape, data).bytes())
    assert [row[:3] + row[4:] for row in file.tensors()] == [("w", type_name, tuple(shape), nbytes)]
    assert file.tensor_data("w").tobytes() == data


def test_tensor_data_is_a_read_only_view_that_outlives_the_file_object(tmp_path: Path) -> None:
    data = parse(tmp_path, Raw().tensor("w", T_F32, [4], b"0123456789abcdef").bytes()).tensor_data("w")
    (tmp_path / "model.gguf").unlink()
    assert data.tobytes() == b"0123456789abcdef"
    with pytest.raises(ValueError):
        data[0] = 1


def test_tensors_may_lie_in_any_order_with_gaps(tmp_path: Path) -> None:
    raw = Raw().tensor("b", T_F32, [1], b"", offset=64).tensor("a", T_F32, [1], b"", offset=0)
    raw.data = b"aaaa" + bytes(60) + b"bbbb"
    file = parse(tmp_path, raw.bytes())
    assert [row[0] for row in file.tensors()] == ["b", "a"]
    assert (file.tensor_data("a").tobytes(), file.tensor_data("b").tobytes()) == (b"aaaa", b"bbbb")


def test_a_vocabulary_of_262k_tokens_opens_in_milliseconds(tmp_path: Path) -> None:
    n = 262144
    tokens = b"".join(struct.pack("<Q", 6) + b"%06d" % i for i in range(n))
    raw = Raw().entry(struct.pack("<Q", 6) + b"tokens" + struct.pack("<IIQ", ARRAY, STRING, n) + tokens)
    raw.key("scores", ARRAY, (F32, [0.0] * 1000))
    path = tmp_path / "vocab.gguf"
    path.write_bytes(raw.bytes())
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        file = GgufFile(path)
        seconds.append(time.perf_counter() - start)
    # About 2 ms on a laptop; the bound only catches a return to one allocation a string on a busy machine.
    assert min(seconds) < 0.05, seconds
    assert file.get("tokens", limit=2) == ["000000", "000001"]
    assert file.get("tokens")[-1] == f"{n - 1:06d}"


# ------------------------------------------------------------------------------------------------ the file


def test_paths_of_every_kind(tmp_path: Path) -> None:
    raw = Raw().key("k", U8, 1).bytes()
    for name in ("plain.gguf", "spaß 日本.gguf", os.fsdecode(b"not-utf8-\xff.gguf")):
        path = tmp_path / name
        path.write_bytes(raw)
        for form in (path, str(path), os.fsencode(path)):
            file = GgufFile(form)
            assert file.path == str(path) and file.files == [str(path)]


def test_what_the_system_refuses_is_a_file_access_error_with_the_path(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    locked = tmp_path / "locked"
    locked.write_bytes(Raw().bytes())
    locked.chmod(0)
    cases = {"missing": "No such file", ".": "Is a directory", "pipe": "not a regular file"}
    if os.geteuid() != 0:  # root may read everything
        cases["locked"] = "Permission denied"
    for name, reason in cases.items():
        with pytest.raises(FileAccessError, match=reason) as error:
            GgufFile(tmp_path / name)
        assert error.value.path == str(tmp_path / name) and error.value.path in str(error.value)
        assert isinstance(error.value, OSError)


def test_impossible_paths(tmp_path: Path) -> None:
    with pytest.raises(ParameterError):
        GgufFile("a\0b")
    with pytest.raises(TypeError):
        GgufFile(7)
    with pytest.raises(FileAccessError) as error:
        GgufFile(tmp_path / os.fsdecode(b"\xff\xfe"))
    assert error.value.path == str(tmp_path / os.fsdecode(b"\xff\xfe"))


def test_opening_and_failing_leaks_no_descriptor_and_no_mapping(tmp_path: Path) -> None:
    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), Path("/proc/self/maps").read_text().count("leak-")

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    good, bad = tmp_path / "leak-good.gguf", tmp_path / "leak-bad.gguf"
    good.write_bytes(Raw().tensor("w", T_F32, [1], b"1234").bytes())
    bad.write_bytes(Raw().tensor("w", T_F32, [9], b"1234").bytes())
    before = held()
    for _ in range(50):
        GgufFile(good).tensor_data("w")
        with pytest.raises(ModelFormatError):
            GgufFile(bad)
    assert held() == before
