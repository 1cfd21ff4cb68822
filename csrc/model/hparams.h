// Hyper-parameters of every supported family, as switches of one graph (docs/architecture.md, "One graph").
// Read from GGUF metadata; every value is checked before anything is sized by it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "gguf/file.h"

namespace muser {

struct LayerParams {
    uint32_t window; // 0: full attention
    int rope;        // index into HParams::ropes; -1: NoPE
};

struct HParams {
    std::string architecture;
    uint32_t n_layers = 0, d_model = 0, d_ff = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, vocab = 0, context = 0;
    float norm_eps = 0;
    EmbedOp embed_op = EmbedOp::none;
    float embed_x = 0;         // scale or eps, by embed_op
    float attention_scale = 0; // multiplied into Q.K
    bool qk_norm = false;
    bool attention_gate = false;
    bool post_norms = false; // sandwich norms after attention and FFN
    float post_norm_eps = 0;
    Activation activation = Activation::silu;
    float logit_scale = 1;
    float softcap = 0;          // 0: none
    bool tied_allowed = true;   // the head may be the token embedding
    std::vector<RopeSpec> ropes;
    std::vector<LayerParams> layers;
};

// Throws Error{unsupported_model} naming what is not supported, or Error{model_format} for broken values.
HParams read_hparams(const gguf::Model &file);

} // namespace muser
