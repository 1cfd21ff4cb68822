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
    uint32_t n_layers, d_model, d_ff, n_heads, n_kv_heads, head_dim, vocab, context;
    float norm_eps;
    EmbedOp embed_op;
    float embed_x;          // scale or eps, by embed_op
    float attention_scale;  // multiplied into Q.K
    float q_scale;          // multiplied into Q
    bool post_norms;        // sandwich norms after attention and FFN
    float post_norm_eps;
    Activation activation;
    float logit_scale;
    float softcap; // 0: none
    std::vector<RopeSpec> ropes;
    std::vector<LayerParams> layers;
};

// Throws Error{unsupported_model} naming what is not supported, or Error{model_format} for broken values.
HParams read_hparams(const gguf::Model &file);

} // namespace muser
