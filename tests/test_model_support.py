"""What muser cannot run it refuses by name: architectures, keys, tensors and shapes. Nothing is ignored."""

from __future__ import annotations

import pytest
from engines import open_engine
from toy import VARIANTS, write_toy

from muser.errors import UnsupportedModelError


def refused(tmp_path, arch, **overrides) -> str:
    path = tmp_path / "model.gguf"
    write_toy(path, arch, **overrides)
    with pytest.raises(UnsupportedModelError) as error:
        open_engine(path)
    assert error.value.path == str(path)
    assert str(path) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_loads(tmp_path, variant):
    arch, overrides = VARIANTS[variant]
    write_toy(tmp_path / "model.gguf", arch, **overrides)
    engine = open_engine(tmp_path / "model.gguf")
    assert engine.architecture == arch
    engine.close()


@pytest.mark.parametrize("arch", ["muse_glimmer", "gpt2", "llama4", "mamba"])
def test_unknown_architectures_are_named(tmp_path, arch):
    assert f"architecture {arch}" in refused(tmp_path, "llama", metadata={"general.architecture": arch})


@pytest.mark.parametrize(
    "arch, key, value",
    [
        ("llama", "expert_count", 8),
        ("llama", "rope.scaling.type", "yarn"),
        ("llama", "attention.value_length", 32),
        ("llama", "rope.dimension_count", 15),
        ("llama", "rope.dimension_count", 64),
        ("llama", "residual_scale", 0.5),
        ("llama", "final_logit_softcapping", 30.0),
        ("qwen2", "attention.sliding_window", 16),
        ("qwen3", "logit_scale", 2.0),
        ("gemma3", "attn_logit_softcapping", 50.0),
        ("gemma3", "attention.sliding_window_pattern", [True, False]),
        ("muse-glimmer", "attention.sliding_window_pattern", [True, False]),
        ("muse-glimmer", "vocab_size", 7),
        ("muse-glimmer", "logit_scale", float("nan")),
        ("llama", "attention.layer_norm_rms_epsilon", 0.0),
        ("llama", "rope.freq_base", -1.0),
        ("llama", "block_count", 0),
        ("llama", "block_count", 4_000_000_000),
        ("llama", "attention.head_count", 0),
        ("llama", "attention.head_count_kv", 3),
        ("llama", "attention.head_count_kv", [2, 2, 2]),
        ("llama", "embedding_length", 4_000_000_000),
        ("llama", "context_length", 0),
        ("llama", "attention.key_length", 20),
    ],
)
def test_unsupported_keys_are_named(tmp_path, arch, key, value):
    message = refused(tmp_path, arch, metadata={f"{arch}.{key}": value})
    assert key in message or "heads" in message or "head size" in message


@pytest.mark.parametrize(
    "arch, key",
    [
        ("muse-glimmer", "logit_scale"),
        ("muse-glimmer", "attention.sliding_window"),
        ("gemma3", "attention.sliding_window"),
        ("llama", "attention.layer_norm_rms_epsilon"),
        ("llama", "block_count"),
        ("llama", "context_length"),
        ("llama", "embedding_length"),
        ("llama", "feed_forward_length"),
        ("llama", "attention.head_count"),
    ],
)
def test_missing_keys_are_named(tmp_path, arch, key):
    assert f"{arch}.{key}" in refused(tmp_path, arch, metadata={f"{arch}.{key}": None})


@pytest.mark.parametrize(
    "arch, name",
    [
        ("muse-glimmer", "token_embd.weight"),
        ("muse-glimmer", "output.weight"),  # never tied in this family
        ("muse-glimmer", "output_norm.weight"),
        ("muse-glimmer", "blk.1.attn_gate.weight"),
        ("muse-glimmer", "blk.2.post_ffw_norm.weight"),
        ("gemma3", "blk.0.attn_q_norm.weight"),
        ("llama", "blk.2.ffn_down.weight"),
        ("llama", "blk.0.attn_k.weight"),
    ],
)
def test_missing_tensors_are_named(tmp_path, arch, name):
    assert name in refused(tmp_path, arch, drop_tensors=(name,))


@pytest.mark.parametrize(
    "arch, overrides, name",
    [
        ("llama", dict(gate=True), "attn_gate"),
        ("llama", dict(post_norms=True), "post_attention_norm"),
        ("qwen2", dict(qk_norm=True), "attn_q_norm"),
        ("qwen3", dict(rope_freqs=True), "rope_freqs"),
    ],
)
def test_tensors_without_a_place_are_named(tmp_path, arch, overrides, name):
    assert name in refused(tmp_path, arch, **overrides)


@pytest.mark.parametrize("key, value", [("embedding_length", 128), ("feed_forward_length", 64), ("attention.key_length", 64)])
def test_shapes_that_disagree_with_the_keys_are_named(tmp_path, key, value):
    message = refused(tmp_path, "muse-glimmer", metadata={f"muse-glimmer.{key}": value})
    assert "shape" in message or key in message
