"""What tests/test_metal_device.py runs in a process of its own, where muser is built with the simulated Metal device.

Every test ends with no finding of the simulator and no Objective-C object alive.
"""

from __future__ import annotations

import gc
import time
from pathlib import Path

import metal_ledger
import numpy as np
import pytest
import toy_reference
from accuracy import relative_rms
from engines import decode, open_engine, prefill, stepwise
from metal_shape import MUSE_30B
from metal_sim import fake_metal
from toy import ALL_TYPES, ARCHITECTURES, write_toy
from toy_vocab import bpe_vocab

from muser.errors import DeviceError, ParameterError, UnhealthyError, UnsupportedModelError

IDS = np.random.default_rng(3).integers(0, 250, 24).astype(np.int32)


@pytest.fixture(autouse=True)
def nothing_found_nothing_leaked():
    yield
    gc.collect()
    assert fake_metal.take_reports() == []
    assert fake_metal.settled_objects() == 0


@pytest.mark.parametrize("quant", ALL_TYPES)
def test_every_weight_type_within_2e_3_of_its_values(quant: str, tmp_path: Path) -> None:
    """Float32 all through: far closer than the CPU device's int8 activations, so the oracle is float64."""
    path = tmp_path / "toy.gguf"
    write_toy(path, "muse-glimmer", quant=quant, layers=2, pattern=[True, False])
    expected, _ = toy_reference.forward(path, IDS)
    engine = open_engine(path, context=64)
    assert relative_rms(prefill(engine, IDS), expected[-1]) < 1e-4
    assert relative_rms(stepwise(open_engine(path, context=64), IDS[:6]), expected[:6]) < 1e-4


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_float_models_agree_with_the_cpu_device(arch: str, tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    write_toy(path, arch, quant="F16")
    results = []
    for device in ("cpu", "metal"):
        engine = open_engine(path, device=device, slots=2, context=128)
        prefill(engine, IDS, slot=1)
        results.append(np.stack([prefill(engine, IDS), decode(engine, 5), decode(engine, 6, slot=1)]))
    assert relative_rms(results[1], results[0]) < 2e-3


def test_the_head_of_a_large_vocabulary_and_a_long_ffn_down(tmp_path: Path) -> None:
    """Kernels that the shape chooses: a row's bits are the same alone and together, and right."""
    vocab = bpe_vocab("muse-glimmer")
    more = range(len(vocab.tokens), 24600)
    vocab.tokens += [f"more {i}" for i in more]
    vocab.types += [vocab.types[0]] * len(more)
    path = tmp_path / "toy.gguf"
    write_toy(path, "muse-glimmer", quant="F16", vocab=vocab, layers=1, pattern=[False])
    engines = [open_engine(path, device=device, slots=2, context=32) for device in ("cpu", "metal", "metal")]
    with fake_metal.setting(trace=1):
        for engine in engines:
            prefill(engine, IDS[:3]), prefill(engine, IDS[3:5], slot=1)
        fake_metal.take_trace()
        alone = [[decode(engine, 5), decode(engine, 6, slot=1)] for engine in engines[:2]]
        engines[2].decode_group([0, 1], [5, 6], timeout=60.0)
        names = " ".join(line for line in fake_metal.take_trace() if line.startswith("dispatch "))
    assert relative_rms(np.stack(alone[1]), np.stack(alone[0])) < 2e-3
    assert [engines[2].logits(i).tobytes() for i in (0, 1)] == [row.tobytes() for row in alone[1]]
    for kernel in ("matvec_staged_f16_", "matvec_divided_f16_"):
        assert kernel + "1" in names and kernel + "2" in names


def test_q8_0_keys_agree_with_the_cpu_device_which_takes_them_over(tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    write_toy(path, "muse-glimmer", quant="F32", head_dim=64)
    cpu, metal = (open_engine(path, device=device, context=128, kv_dtype="q8_0") for device in ("cpu", "metal"))
    assert relative_rms(prefill(metal, IDS), prefill(cpu, IDS)) < 2e-3
    for one, other in ((cpu, metal), (metal, cpu)):
        other.restore(0, one.snapshot(0))
        assert relative_rms(decode(metal, 5), decode(cpu, 5)) < 2e-3
    with pytest.raises(ParameterError, match="multiple of 32"):
        write_toy(path, "llama", head_dim=16)
        open_engine(path, kv_dtype="q8_0")


def test_a_failed_command_buffer_is_a_device_error_and_latches(tmp_path: Path) -> None:
    write_toy(tmp_path / "toy.gguf", "llama")
    engine = open_engine(tmp_path / "toy.gguf", context=64)
    prefill(engine, IDS[:4])
    with fake_metal.setting(fail_in=1), pytest.raises(DeviceError, match="Metal: .+"):
        decode(engine, 5)
    with pytest.raises(UnhealthyError, match="Metal: "):
        decode(engine, 5)
    assert engine.position(0) == 4


def test_a_command_buffer_that_never_ends_is_a_device_error_within_the_limit(tmp_path: Path) -> None:
    write_toy(tmp_path / "toy.gguf", "llama")
    engine = open_engine(tmp_path / "toy.gguf", context=64, pass_limit=0.5)
    prefill(engine, IDS[:4])
    with fake_metal.setting(hang_in=1):
        started = time.monotonic()
        with pytest.raises(DeviceError, match="did not finish"):
            decode(engine, 5)
        assert 0.5 <= time.monotonic() - started < 25
        with pytest.raises(UnhealthyError, match="did not finish"):
            prefill(engine, IDS[:4])
        assert engine.position(0) == 4
        fake_metal.put("release_hung", 1)
    assert engine.close()


@pytest.mark.parametrize("setting", ({"fail_in": 3}, {"hang_in": 3}), ids=str)
def test_a_link_of_a_chain_that_fails_latches_and_installs_nothing(setting: dict[str, int], tmp_path: Path) -> None:
    write_toy(tmp_path / "toy.gguf", "llama")
    engine = open_engine(tmp_path / "toy.gguf", context=64, pass_limit=1.0)
    prefill(engine, IDS[:4])
    with fake_metal.setting(**setting), pytest.raises(DeviceError, match="Metal: |did not finish"):
        engine.greedy(0, 5, 16, [], 60.0)
    assert engine.position(0) == 4 and engine.unhealthy_cause()
    if "hang_in" in setting:
        fake_metal.put("release_hung", 1)
    assert engine.close()


def test_a_chain_is_one_command_buffer_a_token_and_at_most_two_for_nothing(tmp_path: Path) -> None:
    write_toy(tmp_path / "toy.gguf", "muse-glimmer", context=64, layers=2, pattern=[True, False])
    engine = open_engine(tmp_path / "toy.gguf", context=64)
    prefill(engine, IDS[:4])
    fake_metal.clear_counters()
    tokens = engine.greedy(0, 5, 16, [], 60.0)
    assert fake_metal.get("command_buffers") == fake_metal.get("encoders") == 16
    engine.rewind(0, 4)
    stop = tokens[3]
    fake_metal.clear_counters()
    assert engine.greedy(0, 5, 16, [stop], 60.0) == tokens[: tokens.index(stop) + 1]
    assert fake_metal.get("command_buffers") <= tokens.index(stop) + 3


def test_a_token_without_logits_is_one_command_buffer_and_an_arg_max_more(tmp_path: Path) -> None:
    write_toy(tmp_path / "toy.gguf", "muse-glimmer", context=64, layers=2, pattern=[True, False])
    engine = open_engine(tmp_path / "toy.gguf", context=64)
    token, dispatches = int(prefill(engine, IDS[:4]).argmax()), []
    for keeps_logits in (True, False):
        fake_metal.clear_counters()
        chosen = engine.greedy(0, token, 1, [], 60.0, keeps_logits)
        assert fake_metal.get("command_buffers") == fake_metal.get("encoders") == 1
        dispatches.append(fake_metal.get("dispatches"))
        assert (engine.logits(0) is not None) == keeps_logits
        engine.rewind(0, 4)
        assert chosen == [int(decode(engine, token).argmax())]
        engine.rewind(0, 4)
    assert dispatches[1] == dispatches[0] + 1


def test_prefill_passes_are_short_where_the_device_draws_the_display(tmp_path: Path) -> None:
    """By measured time: on the slow simulator as few rows as the rule allows. The bits are the same."""
    write_toy(tmp_path / "toy.gguf", "llama", context=400, layers=1)
    ids = np.random.default_rng(2).integers(0, 250, 300)
    seen, passes = set(), []
    for longest in (None, 0.0, 0.001):
        engine = open_engine(tmp_path / "toy.gguf", context=400, longest_prefill=longest)
        fake_metal.clear_counters()
        seen.add(prefill(engine, ids).tobytes())
        passes.append(fake_metal.get("command_buffers"))
    assert len(seen) == 1
    assert passes[1:] == [1, 5] and passes[0] > 1  # 64 rows at least


@pytest.mark.parametrize(
    "settings", ({"max_buffer_length": 1 << 18}, {"working_set": 40000}, {"residency_sets": 0}, {"max_threads": 384}), ids=str
)
def test_systems_of_other_sizes_give_the_same_bits(settings: dict[str, int], tmp_path: Path) -> None:
    write_toy(tmp_path / "toy.gguf", "muse-glimmer", context=16, window=8)
    seen = set()
    for chosen in ({}, settings):
        with fake_metal.setting(**chosen):
            engine = open_engine(tmp_path / "toy.gguf", context=16, kv_dtype="f16")
            prefill(engine, IDS[:6])
            seen.add(decode(engine, 9).tobytes())
    assert len(seen) == 1


def test_small_alignment_is_copied(tmp_path: Path) -> None:
    for alignment in (None, 8):
        write_toy(tmp_path / f"{alignment}.gguf", "llama", alignment=alignment)
    rows = [prefill(open_engine(tmp_path / f"{a}.gguf", context=32), IDS[:5]).tobytes() for a in (None, 8)]
    assert rows[0] == rows[1]


def test_rows_that_are_no_whole_runs_are_refused_by_name(tmp_path: Path) -> None:
    write_toy(tmp_path / "toy.gguf", "llama", d_ff=104)
    with pytest.raises(UnsupportedModelError, match=r"ffn_down.*multiple of 16"):
        open_engine(tmp_path / "toy.gguf", context=32)


def test_work_ledger_of_muse_glimmer_30b(tmp_path: Path) -> None:
    """The whole 30B shape, encoded and counted, with nothing computed; docs/metal.md says the same."""
    layers, ends = MUSE_30B.layers, 4  # embedding, first norm, last norm, head
    passes, read, kv = metal_ledger.counted(tmp_path / "muse.gguf")
    for name, got in passes.items():
        dispatches, barriers = (13, 11) if "prefill" in name else (11, 8)
        assert got["command_buffers"] == got["encoders"] == 1
        assert got["dispatches"] <= dispatches * layers + ends and got["barriers"] <= barriers * layers + ends
        # The floor, the embedding table, the planes' room for a chunk, and the workspace.
        assert got["bytes"] <= 1.07 * (read + (1 if "prefill" in name else int(name[-1])) * kv)
    assert read == 15_987_099_648  # what one decoded token must read of the published file
    assert metal_ledger.block(passes, read, kv, layers) == metal_ledger.BLOCK.search(metal_ledger.PAGE.read_text())[0]
