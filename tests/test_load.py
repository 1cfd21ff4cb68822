"""Loading: one opening of the file, no room for it beside the weights, and what happens when it changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from engines import SHIPPED

import muser
from muser import _muser
from muser.errors import FileAccessError

TEXT = "Once upon a time"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copy(SHIPPED, tmp_path / "model.gguf"))


def test_a_file_replaced_after_the_load_keeps_its_vocabulary(copy: Path) -> None:
    with muser.Model.tiny(slots=1, context=64) as tiny:
        wanted = tiny.tokenize(TEXT)
    with muser.Model.load(copy, slots=1, context=64) as model:
        other = copy.with_name("other.gguf")
        other.write_bytes(b"another model")
        os.replace(other, copy)
        assert model.tokenize(TEXT) == wanted
        assert model.generate(TEXT, max_tokens=4, ignore_eos=True).text


@pytest.mark.parametrize("length", [0, 1 << 20, None])
def test_a_file_written_to_after_the_load_is_refused_when_its_vocabulary_is_read(
    copy: Path, length: int | None
) -> None:
    with muser.Model.load(copy, slots=1, context=64) as model:
        if length is None:
            with copy.open("r+b") as file:
                file.write(b"GGUF")
        else:
            os.truncate(copy, length)
        with pytest.raises(FileAccessError, match="written to after the model was loaded") as caught:
            model.tokenize(TEXT)
        assert caught.value.path == str(copy)


def test_a_vocabulary_that_was_read_does_not_need_the_file(copy: Path) -> None:
    with muser.Model.load(copy, slots=1, context=64) as model:
        wanted = model.tokenize(TEXT)
        os.truncate(copy, 0)
        assert model.tokenize(TEXT) == wanted


def test_a_file_that_became_shorter_before_its_weights_are_read_is_an_error(copy: Path) -> None:
    file = _muser.GgufFile(copy)
    os.truncate(copy, min(offset for *_, offset, _ in file.tensors()))
    with pytest.raises(FileAccessError, match="has become shorter") as caught:
        _muser.Engine(
            file,
            device="cpu",
            slots=1,
            context=64,
            kv_dtype="f16",
            threads=2,
            prefill_patience=16,
            memory_limit=None,
        )
    assert caught.value.path == str(copy)


PEAK = """
import sys
from muser import _muser

def status(key):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))

with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")  # the high-water mark begins again
before = status("VmRSS")
engine = _muser.Engine(sys.argv[1], device="cpu", slots=1, context=64, kv_dtype="f16", threads=2,
                       prefill_patience=16, memory_limit=None)
print(status("VmHWM") - before, engine.memory_plan()["weights"])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_loading_needs_no_room_for_the_file_beside_the_weights() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(SHIPPED)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    peak, weights = (int(n) for n in done.stdout.split())
    assert peak < weights + SHIPPED.stat().st_size / 2
