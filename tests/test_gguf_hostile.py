"""Files that break the format: each is a typed error that names the path, the byte and what is there; nothing
else ever happens, whatever the bytes."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from raw_gguf import ARRAY, BOOL, F32, I32, STRING, T_F32, T_Q4_0, T_Q4_K, U8, U32, Raw, text, u32, u64
from toy import write_toy

from muser._muser import GgufFile
from muser.errors import ModelFormatError, UnsupportedModelError

TWO_62 = 2**62


@dataclass(frozen=True)
class Bad:
    raw: Callable[[], Raw | bytes]
    message: str  # a regular expression
    offset: int | Callable[[Raw], int]


def with_counts(n_tensors: int | None = None, n_entries: int | None = None) -> Raw:
    raw = Raw().key("k", U8, 1).tensor("w", T_F32, [2], bytes(8))
    raw.n_tensors, raw.n_entries = n_tensors, n_entries
    return raw


def nested(depth: int) -> bytes:
    """A key whose value nests `depth` arrays."""
    return text("k") + u32(ARRAY) + (u32(ARRAY) + u64(1)) * (depth - 1) + u32(U8) + u64(0)


def one(*tensor: object, **options: object) -> Callable[[], Raw]:
    return lambda: Raw().tensor(*tensor, **options)  # type: ignore[arg-type]


def two(first: tuple[int, int], second: tuple[int, int]) -> Raw:
    """Two F32 tensors given as (data offset, elements), over 256 bytes of data."""
    raw = (
        Raw()
        .tensor("a", T_F32, [first[1]], offset=first[0])
        .tensor("b", T_F32, [second[1]], offset=second[0])
    )
    raw.data = bytes(256)
    return raw


NAME_END = 8 + 1  # of a one-letter name in a record or entry
OFFSET_FIELD = NAME_END + 4 + 8 + 4  # of a one-dimensional record

HOSTILE: dict[str, Bad] = {
    # another kind of file
    "empty": Bad(lambda: b"", "the file is empty", 0),
    "html": Bad(lambda: b"<!DOCTYPE html><html><body>404</body></html>", "HTML", 0),
    "zip": Bad(lambda: b"PK\x03\x04" + bytes(100), "zip archive", 0),
    "lfs": Bad(lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "Git LFS pointer", 0),
    "safetensors": Bad(lambda: u64(40) + b'{"__metadata__": {}}' + bytes(20), "safetensors", 0),
    "old ggml": Bad(lambda: b"lmgg" + bytes(30), "old GGML file", 0),
    "zeros": Bad(lambda: bytes(4096), r"begins with '\\x00\\x00\\x00\\x00'", 0),
    "lower case": Bad(lambda: b"gguf" + bytes(40), "not a GGUF file: it begins with 'gguf'", 0),
    "version 1": Bad(lambda: Raw(version=1), "GGUF version 1 is not supported", 4),
    "version 4": Bad(lambda: Raw(version=4), "GGUF version 4 is not supported", 4),
    "version 0": Bad(lambda: Raw(version=0), "GGUF version 0 is not supported", 4),
    "big endian": Bad(lambda: b"GGUF" + struct.pack(">IQQ", 3, 0, 0), r"big-endian GGUF file \(version 3\)", 4),
    "big endian magic": Bad(lambda: b"FUGG" + bytes(40), "big-endian", 0),
    # counts and lengths
    "entries": Bad(lambda: with_counts(n_entries=TWO_62), f"the metadata claims {TWO_62} elements", 24),
    "entries - 1": Bad(lambda: with_counts(n_entries=2**64 - 1), f"claims {2**64 - 1} elements", 24),
    "tensors": Bad(lambda: with_counts(n_tensors=TWO_62), f"tensor table claims {TWO_62}", lambda r: r.record_at(0)),
    "key length": Bad(lambda: Raw().entry(u64(2**63) + b"k" + bytes(40)), f"key of metadata entry 0 has {2**63} bytes", 24),
    "empty key": Bad(lambda: Raw().key("", STRING, "v"), "metadata entry 0 has 0 bytes", 24),
    "long key": Bad(lambda: Raw().key("k" * 65536, U8, 1), "has 65536 bytes, not 1 to 65535", 24),
    "key not UTF-8": Bad(lambda: Raw().key("a", U8, 1).key(b"b\xff", U8, 1), r"entry 1, 'b\\xff', is not UTF-8",
                         lambda r: r.entry_at(1)),
    "key surrogate": Bad(lambda: Raw().key(b"\xed\xa0\x80", U8, 1), "is not UTF-8", 24),
    "key overlong": Bad(lambda: Raw().key(b"\xc0\x80", U8, 1), "is not UTF-8", 24),
    "string length": Bad(lambda: Raw().entry(text("k") + u32(STRING) + u64(2**40)), "the file ends inside key 'k'", 24 + 21),
    "array count": Bad(lambda: Raw().entry(text("k") + u32(ARRAY) + u32(I32) + u64(2**61)),
                       f"key 'k' claims {2**61} elements", 24 + 25),
    "array of strings count": Bad(lambda: Raw().entry(text("k") + u32(ARRAY) + u32(STRING) + u64(2) + text("x")),
                                  "key 'k' claims 2 elements of at least 8 bytes, but only 9", 24 + 25),
    "array of arrays count": Bad(lambda: Raw().entry(text("k") + u32(ARRAY) + u32(ARRAY) + u64(2**60)),
                                 "claims", 24 + 25),
    "string in array": Bad(lambda: Raw().entry(text("k") + u32(ARRAY) + u32(STRING) + u64(1) + u64(2**63)),
                           "the file ends inside key 'k'", 24 + 33),
    "nine nested arrays": Bad(lambda: Raw().entry(nested(9)), "nests arrays deeper than 8", 24 + 13 + 8 * 12),
    "10000 nested arrays": Bad(lambda: Raw().entry(nested(10000)), "nests arrays deeper than 8", 24 + 13 + 8 * 12),
    # values
    "value type": Bad(lambda: Raw().entry(text("k") + u32(13) + bytes(8)), "key 'k' has the value type 13", 24 + 9),
    "element type": Bad(lambda: Raw().entry(text("k") + u32(ARRAY) + u32(99) + u64(0)), "value type 99", 24 + 13),
    "bool 2": Bad(lambda: Raw().key("k", BOOL, 2), "bool with the value 2", 24 + 13),
    "bool in array": Bad(lambda: Raw().key("k", ARRAY, (BOOL, [0, 1, 255])), "bool with the value 255", 24 + 13 + 14),
    "duplicate key": Bad(lambda: Raw().key("a", U8, 1).key("b", U8, 1).key("a", F32, 2.0), "key 'a' appears twice",
                         lambda r: r.entry_at(2)),
    "alignment 0": Bad(lambda: Raw().key("general.alignment", U32, 0), "'general.alignment' is 0", 24),
    "alignment 48": Bad(lambda: Raw().key("general.alignment", U32, 48), "is 48, not a power of two", 24),
    "alignment 2^31": Bad(lambda: Raw().key("general.alignment", U32, 2**31), "is 2147483648", 24),
    "alignment -32": Bad(lambda: Raw().key("general.alignment", I32, -32), "is negative: -32", 24),
    "alignment text": Bad(lambda: Raw().key("x", U8, 0).key("general.alignment", STRING, "32"), "type string, not an integer",
                          lambda r: r.entry_at(1)),
    # tensors
    "no dimension": Bad(one("w", T_F32, [], bytes(4)), "tensor 'w' has 0 dimensions", 24 + NAME_END),
    "five dimensions": Bad(one("w", T_F32, [1] * 5, bytes(4)), "has 5 dimensions, not 1 to 4", 24 + NAME_END),
    "dimension count": Bad(one("w", T_F32, [1], bytes(4), n_dims=2**32 - 1), "4294967295 dimensions", 24 + NAME_END),
    "zero extent": Bad(one("w", T_F32, [4, 0], bytes(4)), "has 0 elements in dimension 1", 24 + NAME_END + 12),
    "size overflow": Bad(one("w", T_F32, [2**32, 2**32], bytes(4)), "overflows", 24 + NAME_END),
    "bytes overflow": Bad(one("w", T_F32, [2**62], bytes(4)), "overflows", 24 + NAME_END),
    "count overflow": Bad(one("w", T_Q4_0, [2**40, 2**20, 8], bytes(4)), "overflows", 24 + NAME_END),
    "part of a block": Bad(one("w", T_Q4_0, [33], bytes(36)), "rows of 33 elements, no multiple of Q4_0's block of 32",
                           24 + NAME_END),
    "cols, not the product": Bad(one("w", T_Q4_K, [128, 2], bytes(144)), "rows of 128 elements", 24 + NAME_END),
    "undefined type": Bad(one("w", 12345, [4], bytes(16)), "tensor 'w' has the type 12345", 24 + NAME_END + 12),
    "past the end": Bad(one("w", T_F32, [9], bytes(32)), "has 36 bytes at data offset 0, but the data section has only 32",
                        24 + OFFSET_FIELD),
    "offset past the end": Bad(one("w", T_F32, [8], bytes(32), offset=32), "at data offset 32", 24 + OFFSET_FIELD),
    "offset overflow": Bad(one("w", T_F32, [8], bytes(32), offset=2**64 - 32), "at data offset", 24 + OFFSET_FIELD),
    "misaligned": Bad(one("w", T_F32, [1], bytes(64), offset=16), "data offset 16, no multiple of the alignment 32",
                      24 + OFFSET_FIELD),
    "no data section": Bad(lambda: Raw().tensor("w", T_F32, [1]).header(), "only 0", 24 + OFFSET_FIELD),
    "same place": Bad(lambda: two((0, 4), (0, 4)), "tensor 'b' begins at byte .*, inside tensor 'a'",
                      lambda r: r.record_at(1) + OFFSET_FIELD),
    "overlap": Bad(lambda: two((64, 4), (0, 17)), "tensor 'a' begins at byte .*, inside tensor 'b'",
                   lambda r: r.record_at(0) + OFFSET_FIELD),
    "duplicate tensor": Bad(lambda: Raw().tensor("w", T_F32, [1], bytes(4)).tensor("w", T_F32, [1], bytes(4)),
                            "tensor 'w' appears twice", lambda r: r.record_at(1)),
    "empty tensor name": Bad(one("", T_F32, [1], bytes(4)), "name of tensor 0 has 0 bytes", 24),
    "tensor name not UTF-8": Bad(one(b"w\x80", T_F32, [1], bytes(4)), r"tensor 0, 'w\\x80', is not UTF-8", 24),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_broken_file_is_refused_with_path_offset_and_value(tmp_path: Path, name: str) -> None:
    bad = HOSTILE[name]
    raw = bad.raw()
    path = tmp_path / "bad.gguf"
    path.write_bytes(raw if isinstance(raw, bytes) else raw.bytes())
    with pytest.raises(ModelFormatError, match=bad.message) as error:
        GgufFile(path)
    expected = bad.offset if isinstance(bad.offset, int) else bad.offset(raw)  # type: ignore[arg-type]
    assert error.value.path == str(path) and error.value.offset == expected, error.value
    assert str(error.value).startswith(f"{path}: ") and str(error.value).endswith(f" (at byte {expected})")


@pytest.mark.parametrize("kind", [gguf.GGMLQuantizationType.IQ2_XXS, gguf.GGMLQuantizationType.TQ1_0,
                                  gguf.GGMLQuantizationType.MXFP4, gguf.GGMLQuantizationType.F64])  # fmt: skip
def test_a_known_type_that_muser_lacks_is_unsupported_by_name(
    tmp_path: Path, kind: gguf.GGMLQuantizationType
) -> None:
    path = tmp_path / "rare.gguf"
    path.write_bytes(Raw().tensor("w", int(kind), [256], bytes(4096)).bytes())
    with pytest.raises(
        UnsupportedModelError, match=rf"tensor 'w' has the type {int(kind)} \({kind.name}\)"
    ) as error:
        GgufFile(path)
    assert error.value.path == str(path)


def test_every_type_of_the_gguf_package_is_either_read_or_named(tmp_path: Path) -> None:
    path = tmp_path / "type.gguf"
    for kind in gguf.GGMLQuantizationType:
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        path.write_bytes(Raw().tensor("w", int(kind), [elements], bytes(size)).bytes())
        try:
            [(_, type_name, _, _, nbytes)] = GgufFile(path).tensors()
            assert (type_name, nbytes) == (kind.name, size)
        except UnsupportedModelError as error:
            assert f"({kind.name})" in str(error)


def test_a_big_endian_file_of_the_gguf_writer_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "big.gguf"
    writer = gguf.GGUFWriter(path, "llama", endianess=gguf.GGUFEndian.BIG)
    writer.add_tensor("w", np.ones(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelFormatError, match="big-endian"):
        GgufFile(path)


def test_names_in_messages_are_escaped_and_short(tmp_path: Path) -> None:
    path = tmp_path / "evil.gguf"
    evil = "\x1b[31m\u0085" + "x" * 5000 + "\0"
    path.write_bytes(Raw().entry(text(evil) + u32(77)).bytes())
    with pytest.raises(ModelFormatError) as error:
        GgufFile(path)
    message = str(error.value).removeprefix(str(path))
    assert len(message) < 250 and message.isprintable()
    assert r"'\x1b[31m\xc2\x85xxx" in message and "..." in message


def small_model() -> Raw:
    raw = Raw().key("general.architecture", STRING, "llama").key("a.count", U32, 3).key("a.flag", BOOL, True)
    raw.key("a.list", ARRAY, (STRING, ["one", "", "three"])).key(
        "a.nest", ARRAY, (ARRAY, [(I32, [1, 2]), (F32, [0.5])])
    )
    raw.tensor("blk.0.weight", T_Q4_0, [32, 2], bytes(range(36)))
    return raw.tensor("norm", T_F32, [8], bytes(32))


def read_everything(path: Path) -> None:
    """Opens the file and touches every value and every byte of data. Anything but a typed error is a failure."""
    try:
        file = GgufFile(path)
    except (ModelFormatError, UnsupportedModelError) as error:
        assert error.path == str(path) and str(path) in str(error)
        if isinstance(error, ModelFormatError):
            assert error.offset is not None and 0 <= error.offset <= path.stat().st_size
            assert f"(at byte {error.offset})" in str(error)
        return
    assert len(file.metadata()) == len(file.entries())
    for name, _, _, offset, nbytes in file.tensors():
        data = file.tensor_data(name)
        assert data.size == nbytes and offset + nbytes <= path.stat().st_size
        int(data.sum())


def test_a_file_cut_at_any_byte_is_refused(tmp_path: Path) -> None:
    raw = small_model().bytes()
    path = tmp_path / "cut.gguf"
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        with pytest.raises(ModelFormatError) as error:
            GgufFile(path)
        assert error.value.offset is not None and error.value.offset <= length
    path.write_bytes(raw)
    GgufFile(path)


def test_a_toy_model_cut_at_every_byte_of_its_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    write_toy(path, "muse-glimmer", layers=1, pattern=1)
    raw = path.read_bytes()
    first = min(offset for *_, offset, _ in GgufFile(path).tensors())
    # From the longest to the shortest, so that one descriptor does; every prefix is a new file to the reader.
    with path.open("r+b") as file:
        file.truncate(first)
        for length in range(first, -1, -1):
            os.ftruncate(file.fileno(), length)
            try:
                GgufFile(path)
            except ModelFormatError as error:
                assert error.offset is not None and error.offset <= length
            else:
                pytest.fail(f"{length} of {len(raw)} bytes were accepted")


def test_a_cut_in_the_tensor_data_is_seen_at_open_not_at_first_use(tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    write_toy(path, "llama", layers=1)
    raw = path.read_bytes()
    end = max(offset + nbytes for *_, offset, nbytes in GgufFile(path).tensors())
    for length in (end - 1, end - 4096, len(raw) // 2):
        path.write_bytes(raw[:length])
        with pytest.raises(ModelFormatError, match="truncated"):
            GgufFile(path)


SMALL = small_model().bytes()


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=6))
@example(edits=[(16, 255)])
def test_flipped_bytes_give_a_typed_error_or_a_readable_file(
    tmp_path: Path, edits: list[tuple[int, int]]
) -> None:
    raw = bytearray(SMALL)
    for at, value in edits:
        raw[at] = value
    path = tmp_path / "flip.gguf"
    path.write_bytes(raw)
    read_everything(path)


INTERESTING = [0, 1, 2**7, 2**8 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64 - 32]


def test_every_field_set_to_every_boundary_value(tmp_path: Path) -> None:
    path = tmp_path / "field.gguf"
    path.write_bytes(SMALL)
    with path.open("r+b", buffering=0) as file:
        for at in range(4, len(small_model().header()) - 8):
            for value in INTERESTING:
                os.pwrite(file.fileno(), u64(value), at)
                read_everything(path)
            os.pwrite(file.fileno(), SMALL[at : at + 8], at)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tail=st.binary(max_size=200), counts=st.tuples(st.integers(0, 4), st.integers(0, 4)))
def test_random_bytes_after_a_plausible_header(tmp_path: Path, tail: bytes, counts: tuple[int, int]) -> None:
    path = tmp_path / "random.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, *counts) + tail)
    read_everything(path)


def test_blocks_of_a_toy_model_shuffled(tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    write_toy(path, "qwen2", layers=1)
    raw = path.read_bytes()
    rng = random.Random(0)
    for _ in range(60):
        mixed = bytearray(raw)
        for _ in range(rng.randint(1, 4)):
            source, target, n = (rng.randrange(9000) for _ in range(3))
            mixed[target : target + n % 64] = raw[source : source + n % 64]
        path.write_bytes(mixed)
        read_everything(path)
