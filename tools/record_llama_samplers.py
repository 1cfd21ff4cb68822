"""What llama.cpp's samplers make of a few rows, for tests/test_sampler_llama_cpp.py.

    python tools/record_llama_samplers.py smollm2.gguf    # with llama-cpp-python; writes tests/data/llama_cpp/samplers.json

Each case is a chain of llama.cpp's own samplers on one row of logits, after a history of tokens. Recorded are the
candidates that are left, with their logits. The model is needed for its vocabulary only (DRY asks for one). Tokens with
-inf are not given to llama.cpp, whose typical_p, dynamic temperature and mirostat 1 count them in, with NaN for a result.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as llama

OUT = Path(__file__).parents[1] / "tests" / "data" / "llama_cpp" / "samplers.json"
N = 40
HISTORY = [1, 2, 3, 9, 1, 2, 3, 4, 1, 2, 3, 9, 7, 7, 1, 2, 3]

CASES: list[dict[str, Any]] = [
    {"top_k": 5}, {"top_p": 0.3}, {"top_p": 0.9}, {"min_p": 0.05}, {"min_p": 0.5}, {"typical_p": 0.2}, {"typical_p": 0.9},
    {"top_n_sigma": 0.5}, {"top_n_sigma": 1.5}, {"xtc_probability": 1.0, "xtc_threshold": 0.05},
    {"xtc_probability": 1.0, "xtc_threshold": 0.15}, {"temperature": 0.7}, {"temperature": 0.8, "dynatemp_range": 0.5},
    {"temperature": 1.5, "dynatemp_range": 1.0, "dynatemp_exponent": 2.5},
    {"repetition_penalty": 1.3}, {"repetition_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": 0.25, "penalty_last_n": 6},
    {"dry_multiplier": 0.8}, {"dry_multiplier": 2.0, "dry_allowed_length": 1, "dry_penalty_last_n": 9},
    {"mirostat": 1, "mirostat_tau": 3.0}, {"mirostat": 1, "mirostat_tau": 1.0}, {"mirostat": 2, "mirostat_tau": 1.0},
    {"mirostat": 2, "mirostat_tau": 2.0, "temperature": 0.8}, {"adaptive_target": 0.3}, {"adaptive_target": 0.7, "min_p": 0.05},
    {"top_k": 20, "top_p": 0.9, "min_p": 0.05, "temperature": 0.8},
    {"repetition_penalty": 1.2, "dry_multiplier": 1.0, "top_k": 25, "typical_p": 0.95, "top_p": 0.9, "min_p": 0.02,
     "xtc_probability": 1.0, "xtc_threshold": 0.1, "temperature": 0.9, "dynatemp_range": 0.3},
]  # fmt: skip


def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(12)
    normal = (rng.standard_normal(N) * 2).astype(np.float32)
    peaked = normal.copy()
    peaked[[4, 11]] += 6
    banned = normal.copy()
    banned[::3] = -np.inf
    return {"normal": normal, "flat": normal / 8, "peaked": peaked, "banned": banned}


def chain(p: dict[str, Any], vocab: Any) -> Any:
    """As common/sampling.cpp builds it. min_keep is 0 there by default."""
    made = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    add = lambda sampler: llama.llama_sampler_chain_add(made, sampler)
    get = p.get
    if "mirostat" not in p:
        penalties = get("repetition_penalty", 1.0), get("frequency_penalty", 0.0), get("presence_penalty", 0.0)
        add(llama.llama_sampler_init_penalties(N, get("penalty_last_n", 64), *penalties))
        if "dry_multiplier" in p:
            lengths = get("dry_allowed_length", 2), get("dry_penalty_last_n", 1024)
            add(llama.llama_sampler_init_dry(vocab, p["dry_multiplier"], get("dry_base", 1.75), *lengths, None, 0))
        add(llama.llama_sampler_init_top_n_sigma(get("top_n_sigma", 0.0)))
        add(llama.llama_sampler_init_top_k(get("top_k", 0)))
        add(llama.llama_sampler_init_typical(get("typical_p", 1.0), 0))
        add(llama.llama_sampler_init_top_p(get("top_p", 1.0), 0))
        add(llama.llama_sampler_init_min_p(get("min_p", 0.0), 0))
        add(llama.llama_sampler_init_xtc(get("xtc_probability", 0.0), get("xtc_threshold", 0.1), 0, 1))
        add(llama.llama_sampler_init_temp_ext(get("temperature", 1.0), get("dynatemp_range", 0.0), get("dynatemp_exponent", 1.0)))
        if "adaptive_target" in p:
            add(llama.llama_sampler_init_adaptive_p(p["adaptive_target"], get("adaptive_decay", 0.9), 1))
    else:
        add(llama.llama_sampler_init_temp(get("temperature", 1.0)))
        tau, eta = get("mirostat_tau", 5.0), get("mirostat_eta", 0.1)
        if p["mirostat"] == 1:
            add(llama.llama_sampler_init_mirostat(N, 1, tau, eta, 100))
        else:
            add(llama.llama_sampler_init_mirostat_v2(1, tau, eta))
    return made


def left(p: dict[str, Any], row: np.ndarray, vocab: Any) -> dict[str, float]:
    sampler = chain(p, vocab)
    for token in HISTORY:
        llama.llama_sampler_accept(sampler, token)
    tokens = [llama.llama_token_data(i, float(x), 0.0) for i, x in enumerate(row) if x > -np.inf]
    data = (llama.llama_token_data * len(tokens))(*tokens)
    array = llama.llama_token_data_array(data=data, size=len(tokens), selected=-1, sorted=False)
    llama.llama_sampler_apply(sampler, ctypes.byref(array))
    kept = {array.data[i].id: array.data[i].logit for i in range(array.size)}
    llama.llama_sampler_free(sampler)
    return {str(token): logit for token, logit in sorted(kept.items()) if logit > -np.inf}


def main(path: str) -> None:
    silent = llama.llama_log_callback(lambda *_: None)  # must live as long as the calls below
    llama.llama_log_set(silent, None)
    llama.llama_backend_init()
    params = llama.llama_model_default_params()
    params.vocab_only = True
    model = llama.llama_model_load_from_file(path.encode(), params)
    vocab = llama.llama_model_get_vocab(model)
    made = [
        {"row": name, "parameters": p, "left": left(p, row, vocab)} for p in CASES for name, row in rows().items()
    ]
    finite = {name: [None if x == -np.inf else float(x) for x in row] for name, row in rows().items()}
    import llama_cpp

    recorded = {"llama_cpp_python": llama_cpp.__version__, "history": HISTORY, "rows": finite}
    lines = ",\n".join(json.dumps(case) for case in made)
    OUT.write_text(json.dumps(recorded)[:-1] + ',\n"cases": [\n' + lines + "\n]}\n")


if __name__ == "__main__":
    main(sys.argv[1])
