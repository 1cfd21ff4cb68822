"""``muser.quantize`` and ``muser quantize``: a whole file or none, everything but the weights as it was, the input untouched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import quantize as package
from raw_gguf import ARRAY, BOOL, F32, F64, I8, I64, STRING, T_F32, U8, U16, U32, U64, Raw
from toy import write_toy

import muser
from muser import ModelFormatError, ParameterError, _muser, quantizing
from muser.cli import main
from muser.errors import FileAccessError, FileMissingError

SHIPPED = Path(muser.__file__).parent / "data" / "muse-tiny-Q4_K_M.gguf"
SMALL = Path(__file__).parent / "data" / "muse-256-q4_k_m.gguf"
F16 = 1  # GGUF's tensor type


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.gguf"
    write_toy(path, "muse-glimmer", "F32", alignment=64)
    return path


def floats(path: Path) -> dict[str, np.ndarray]:
    file = _muser.GgufFile(path)
    return {
        name: _muser.testing.dequantize(kind, file.tensor_data(name).tobytes(), int(np.prod(shape)))
        for name, kind, shape, _, _ in file.tensors()
    }


def test_every_type_loads_and_goes_on_like_the_original(tmp_path: Path) -> None:
    """The shipped model, all types, from its dequantized weights; the nearer types give the very text."""
    whole = tmp_path / "whole.gguf"
    assert muser.quantize(SHIPPED, whole, "F32").nbytes == whole.stat().st_size
    prompt = "Once upon a time"

    def text(path: Path) -> str:
        with muser.Model.load(path, slots=1, context=64) as model:
            return model.generate(prompt, max_tokens=16, temperature=0).text

    expected = text(whole)
    for mix in ("Q2_K", "Q3_K_M", "Q5_1", "Q6_K", "F16"):
        target = tmp_path / f"{mix}.gguf"
        written = muser.quantize(whole, target, mix)
        assert written.tensor_types == {name: kind for name, kind, *_ in _muser.GgufFile(target).tensors()}
        if mix in ("Q6_K", "F16"):
            assert text(target) == expected, mix
        else:
            assert len(text(target)) > 20, mix


def test_metadata_is_kept_byte_for_byte_but_for_the_two_keys_of_the_type(tmp_path: Path) -> None:
    raw = Raw(alignment=64).key("general.architecture", STRING, "llama").key("general.alignment", U32, 64)
    raw.key("a.u8", U8, 255).key("a.i8", I8, -128).key("a.u16", U16, 65535).key("a.u64", U64, 2**64 - 1).key("a.i64", I64, -(2**63))
    raw.key("a.f32", F32, 0.1).key("a.f64", F64, 0.1).key("a.bool", BOOL, 1).key("a.bytes", STRING, b"\xff\x00")
    raw.key("general.file_type", U32, 0).key("a.strings", ARRAY, (STRING, ["x", "", "yz"]))
    raw.key("a.nested", ARRAY, (ARRAY, [(U16, [1, 2]), (ARRAY, [(STRING, ["deep"])])])).key("a.none", ARRAY, (F32, []))
    weights = np.arange(64, dtype=np.float32).tobytes()
    raw.tensor("blk.0.ffn_up.weight", T_F32, [32, 2], weights).tensor("v.weight", T_F32, [5], bytes(20))
    source, target = tmp_path / "in.gguf", tmp_path / "out.gguf"
    source.write_bytes(raw.bytes())
    muser.quantize(source, target, "F16")
    expected = Raw(alignment=64)
    expected.entries = [entry for entry in raw.entries if b"general.file_type" not in entry]
    place = next(i for i, entry in enumerate(raw.entries) if b"general.file_type" in entry)
    expected.entries.insert(place, Raw().key("general.file_type", U32, 1).entries[0])
    expected.key("general.quantization_version", U32, 2)
    halves = np.arange(64, dtype=np.float16).tobytes()
    expected.tensor("blk.0.ffn_up.weight", F16, [32, 2], halves).tensor("v.weight", T_F32, [5], bytes(20))
    assert target.read_bytes() == expected.bytes()
    assert source.read_bytes() == raw.bytes()


@pytest.mark.parametrize("mix", ["Q8_0", "F16", "BF16"])
def test_whole_files_have_the_bits_of_the_gguf_package(toy: Path, tmp_path: Path, mix: str) -> None:
    target = tmp_path / "out.gguf"
    muser.quantize(toy, target, mix, threads=3)
    read = {t.name: t for t in GGUFReader(target).tensors}
    for tensor in GGUFReader(toy).tensors:
        values = np.asarray(tensor.data, np.float32)
        if len(tensor.shape) > 1:
            kind = GGMLQuantizationType[mix]
            expected = values.astype(np.float16) if mix == "F16" else package(values, kind)
            assert read[tensor.name].tensor_type == kind
            assert np.asarray(read[tensor.name].data).tobytes() == expected.tobytes()
        else:
            assert np.asarray(read[tensor.name].data).tobytes() == values.tobytes()


def test_the_number_of_threads_changes_nothing_and_a_tensor_of_that_type_is_copied(tmp_path: Path) -> None:
    one, four, again = (tmp_path / name for name in ("1.gguf", "4.gguf", "again.gguf"))
    muser.quantize(SMALL, one, "Q5_K_M", threads=1)
    muser.quantize(SMALL, four, "Q5_K_M", threads=4)
    muser.quantize(four, again, "Q5_K_M")
    assert one.read_bytes() == four.read_bytes() == again.read_bytes()


def test_a_split_model_becomes_one_file(tmp_path: Path) -> None:
    for number in range(2):
        raw = Raw().key("split.no", U16, number).key("split.count", U16, 2).key("split.tensors.count", U16, 2)
        raw = raw.key("general.architecture", STRING, "llama") if number == 0 else raw
        raw.tensor(f"blk.{number}.ffn_up.weight", T_F32, [32, 2], np.full(64, 127 * (number + 1), np.float32).tobytes())
        (tmp_path / f"m-{number + 1:05d}-of-00002.gguf").write_bytes(raw.bytes())
    target = tmp_path / "out.gguf"
    muser.quantize(tmp_path / "m-00001-of-00002.gguf", target, "Q8_0")
    assert not any(key.startswith("split.") for key in _muser.GgufFile(target).metadata())
    assert {name: set(values) for name, values in floats(target).items()} == {
        "blk.0.ffn_up.weight": {np.float32(127)}, "blk.1.ffn_up.weight": {np.float32(254)}}  # fmt: skip
    with pytest.raises(ParameterError, match="target"):  # any of the parts
        muser.quantize(tmp_path / "m-00001-of-00002.gguf", tmp_path / "m-00002-of-00002.gguf")


def test_the_input_is_never_the_output(toy: Path, tmp_path: Path) -> None:
    before = toy.read_bytes()
    soft, hard = tmp_path / "soft.gguf", tmp_path / "hard.gguf"
    soft.symlink_to(toy)
    os.link(toy, hard)
    for target in (toy, soft, hard, tmp_path / "." / "toy.gguf"):
        with pytest.raises(ParameterError) as caught:
            muser.quantize(toy, target, "Q8_0")
        assert caught.value.parameter == "target"
    assert toy.read_bytes() == before


class Stop(Exception):
    pass


def stop(done: int, total: int) -> None:
    raise Stop


def test_what_fails_leaves_nothing_and_replaces_nothing(toy: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.gguf"
    old.write_bytes(b"precious")
    with pytest.raises(Stop):
        muser.quantize(toy, old, "Q8_0", progress=stop)
    bad = tmp_path / "bad.gguf"
    weights = np.zeros(64, np.float32)
    weights[40] = np.nan
    bad.write_bytes(Raw().tensor("blk.0.ffn_up.weight", T_F32, [32, 2], weights.tobytes()).bytes())
    with pytest.raises(ModelFormatError, match=r"ffn_up.weight.* value 40.*Q8_0") as damaged:
        muser.quantize(bad, old, "Q8_0")
    assert damaged.value.path == str(bad) and damaged.value.offset
    for target in (tmp_path, Path("/dev/null"), tmp_path / "missing" / "out.gguf"):
        with pytest.raises(FileAccessError):
            muser.quantize(toy, target, "Q8_0")
    with pytest.raises(FileMissingError):
        muser.quantize(tmp_path / "missing.gguf", old)
    assert old.read_bytes() == b"precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.gguf", "old.gguf", "toy.gguf"]
    muser.quantize(toy, old, "Q8_0")
    assert _muser.GgufFile(old).get("general.file_type") == 7


def test_wrong_arguments_are_refused_before_anything_is_written(toy: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.gguf"
    for parameter, given in {
        "type": {"type": "Q9_K"}, "threads": {"threads": 0}, "tensor_types": {"tensor_types": {"*": "IQ4_XS"}},
    }.items():  # fmt: skip
        with pytest.raises(ParameterError) as caught:
            muser.quantize(toy, target, **given)  # type: ignore[arg-type]
        assert caught.value.parameter == parameter
    for parameter, values in {
        "tensor_types": (1, "x", b"x", [], [("*", "Q8_0")], {1: "Q8_0"}, {b"*": "Q8_0"}, {"*": 5}, {"*": None}, {"*": b"Q8_0"}, {"*": ""}),
        "progress": (1, "x", []), "source": (None, 1, "", b"", "a\0b", []), "target": (None, 1, "", b"", "a\0b", []),
    }.items():  # fmt: skip
        for value in values:
            given = {"source": toy, "target": target, parameter: value}
            with pytest.raises(ParameterError, match=parameter) as caught:
                muser.quantize(**given)  # type: ignore[arg-type]
            assert caught.value.parameter == parameter, value
            if parameter != "tensor_types":  # of which it is the wrong part
                assert caught.value.value == value
    for wrong in ({"no.such": "Q8_0"}, {"output.weight": "Q9"}, {"output_norm.weight": "Q8_0"}):
        with pytest.raises(ParameterError, match="tensor_types"):
            muser.quantize(toy, target, tensor_types=wrong)
    assert not target.exists()


def test_patterns_change_single_tensors(tmp_path: Path) -> None:
    target = tmp_path / "out.gguf"
    types = muser.quantize(SMALL, target, "Q4_0", tensor_types={"blk.*.ffn_down.weight": "Q5_K", "blk.0.*": "F16"}).tensor_types
    assert types["blk.1.ffn_down.weight"] == "Q5_K" and types["blk.0.ffn_down.weight"] == "F16"
    assert types["blk.0.attn_norm.weight"] == "F32" and types["blk.1.ffn_up.weight"] == "Q4_0"


def test_the_command(toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.gguf"
    assert main(["quantize", str(toy), str(target), "--type", "Q8_0", "--tensor-type", "output.weight=F16", "--threads", "1"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.startswith(f"{target}: {target.stat().st_size:,} bytes in ") and "1 F16" in out
    assert main(["quantize", str(toy), str(toy)]) == 1
    assert "target must not be" in capsys.readouterr().err
    assert main(["quantize", str(toy), str(target), "--tensor-type", "Q8_0"]) == 1
    assert "PATTERN=TYPE" in capsys.readouterr().err
    for given, said in (("a=", "its type is empty"), ("=Q8_0", "its pattern is empty")):
        assert main(["quantize", str(toy), str(target), "--tensor-type", given]) == 1
        assert said in capsys.readouterr().err
    assert set(quantizing.TYPES) >= {"Q4_K_M", "Q4_K_S", "Q5_K_M", "Q5_K_S", "Q6_K", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                     "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L", "F16", "BF16", "F32"}  # fmt: skip


MEASURE = """
import resource, sys, muser
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
muser.quantize(sys.argv[1], sys.argv[2], "Q8_0", threads=2)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux")
def test_memory_stays_bounded_whatever_the_size_of_a_tensor(tmp_path: Path) -> None:
    """One tensor of 256 MB, a hole in the file: the process grows by the buffers, about 40 MB, not by the tensor."""
    source, target = tmp_path / "in.gguf", tmp_path / "out.gguf"
    rows = 1 << 14
    header = Raw().tensor("blk.0.ffn_up.weight", T_F32, [4096, rows], b"").bytes()
    source.write_bytes(header)
    os.truncate(source, len(header) + 4 * 4096 * rows)
    done = subprocess.run([sys.executable, "-c", MEASURE, source, target], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100 * 1024
    assert target.stat().st_size > 4096 * rows
