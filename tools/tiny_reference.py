"""Makes the random tiny Muse Glimmer files of tests/data and the float32 logits that transformers gives.

    python tools/tiny_reference.py f32  OUT.gguf OUT.npz              d 64, window 16: the 1e-4 tests
    python tools/tiny_reference.py q4km OUT.gguf                      d 256, quantized by llama.cpp: the gates
    python tools/tiny_reference.py logits FILE.gguf IDS.npz OUT.npz   oracle logits of any muse-glimmer GGUF

Needs torch, transformers >= 5.15 (used: 5.24.0), gguf, tokenizers; q4km also llama-cpp-python.
Deterministic; no network.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import gguf
import muse_hf
import numpy as np
import torch
from muse_layout import ARCH, text_tensors
from tiny_tokenizer import N_CONTROL, add_to_gguf, build
from transformers import MuseGlimmerForConditionalGeneration

torch.set_num_threads(1)
SEED = 7


def random_model(
    *,
    d: int,
    ff: int,
    layers: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    vocab: int,
    window: int,
    context: int,
    qk: float,
) -> MuseGlimmerForConditionalGeneration:
    config = muse_hf.make_config(
        vocab_size=vocab,
        hidden_size=d,
        intermediate_size=ff,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=context,
        sliding_window=window,
        rms_norm_eps=1e-5,
        post_norm_eps=1e-8,
        qk_scale_factor=qk,
        output_multiplier=float((d / 256) ** -0.5),
        final_logit_softcapping=20.0,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        bos_token_id=vocab - N_CONTROL,
        eos_token_id=vocab - N_CONTROL + 1,
        pad_token_id=vocab - N_CONTROL + 18,
        tie_word_embeddings=False,
    )
    model = MuseGlimmerForConditionalGeneration(config).float().eval()
    randomize(model)
    return model


@torch.no_grad()
def randomize(model: torch.nn.Module) -> None:
    """Weights in which every tensor matters. Norms must not stay at their initial 0 or 1, or a forgotten +1
    would not show. Post norms get a mean gain of 0.3 so that the residual is not chaotic and low-precision
    runs stay comparable."""
    generator = torch.Generator().manual_seed(SEED)
    for name, p in model.named_parameters():
        if p.ndim >= 2:
            p.copy_(torch.randn(p.shape, generator=generator) * (1.0 if "embed_tokens" in name else 0.08))
        elif "norm" in name:
            post = "post_attention_layernorm" in name or "post_feedforward_layernorm" in name
            noise = torch.randn(p.shape, generator=generator)
            p.copy_(p + (-0.7 if post else 0.0) + (0.1 if post else 0.25) * noise)
        else:
            p.copy_(0.1 * torch.randn(p.shape, generator=generator))


def write_gguf(path: Path, model: MuseGlimmerForConditionalGeneration) -> None:
    """A float32 GGUF with the keys of the published files (sliding_window_pattern as bool[n_layers])."""
    c = model.config.text_config
    w = gguf.GGUFWriter(str(path), ARCH)
    w.add_type("model")
    w.add_name("Muse-Glimmer-tiny-random")
    w.add_size_label("tiny")

    def uint(name: str, value: int) -> None:
        w.add_uint32(f"{ARCH}.{name}", value)

    def real(name: str, value: float) -> None:
        w.add_float32(f"{ARCH}.{name}", value)

    uint("block_count", c.num_hidden_layers)
    uint("context_length", c.max_position_embeddings)
    uint("embedding_length", c.hidden_size)
    uint("feed_forward_length", c.intermediate_size)
    uint("attention.head_count", c.num_attention_heads)
    uint("attention.head_count_kv", c.num_key_value_heads)
    real("rope.freq_base", float(c.rope_parameters["rope_theta"]))
    real("attention.layer_norm_rms_epsilon", c.rms_norm_eps)
    uint("attention.key_length", c.head_dim)
    uint("attention.value_length", c.head_dim)
    w.add_file_type(0)
    real("final_logit_softcapping", c.final_logit_softcapping)
    real("logit_scale", c.output_multiplier)
    uint("attention.sliding_window", c.sliding_window)
    w.add_array(
        f"{ARCH}.attention.sliding_window_pattern", [t == "sliding_attention" for t in c.layer_types]
    )
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    add_to_gguf(w, build(c.vocab_size), c.vocab_size - N_CONTROL)
    for name, values in text_tensors(model.state_dict(), c).items():
        w.add_tensor(name, values)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_f32(out_gguf: Path, out_npz: Path) -> None:
    model = random_model(
        d=64, ff=192, layers=8, heads=4, kv_heads=2, head_dim=32, vocab=512, window=16, context=256, qk=3.87
    )
    write_gguf(out_gguf, model)
    ids = [480, *np.random.default_rng(SEED).integers(0, 480, 47).tolist()]  # three windows long
    logits, residuals = muse_hf.forward(model, ids)
    prompt = ids[:24]
    greedy, _ = muse_hf.greedy(model, prompt, 24)
    np.savez_compressed(
        out_npz,
        ids=np.array(ids, np.int32),
        logits=logits,
        residuals=residuals,
        prompt=np.array(prompt, np.int32),
        greedy=np.array(greedy, np.int32),
    )
    print(json.dumps({"logits_absmax": float(np.abs(logits).max()), "greedy": greedy}))


def make_q4km(out_gguf: Path) -> None:
    """qk 1 and d 256: a well-conditioned model whose rows hold whole K-quant blocks."""
    from llama_cpp_engine import quantize

    model = random_model(
        d=256, ff=768, layers=4, heads=8, kv_heads=2, head_dim=64, vocab=512, window=16, context=256, qk=1.0
    )
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "f32.gguf"
        write_gguf(plain, model)
        quantize(plain, out_gguf, "Q4_K_M")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for command, names in {
        "f32": ("gguf", "npz"),
        "q4km": ("gguf",),
        "logits": ("gguf", "ids", "npz"),
    }.items():
        sub = commands.add_parser(command)
        for name in names:
            sub.add_argument(name, type=Path)
    a = parser.parse_args()
    if a.command == "f32":
        make_f32(a.gguf, a.npz)
    elif a.command == "q4km":
        make_q4km(a.gguf)
    else:
        logits, _ = muse_hf.forward(muse_hf.load_gguf(a.gguf), np.load(a.ids)["ids"].tolist())
        np.savez_compressed(a.npz, logits=logits)


if __name__ == "__main__":
    main()
