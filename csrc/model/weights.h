// The weight table: every tensor of the file bound to its place in the graph, its shape checked.
// A tensor that no place asked for is an error: nothing of the file is silently ignored.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "gguf/file.h"
#include "model/hparams.h"

namespace muser {

// Indices into the source list; -1: absent (an optional tensor).
struct LayerIndex {
    int attn_norm, q, k, v, q_bias, k_bias, v_bias, attn_gate, q_norm, k_norm, out, out_bias, post_attn_norm;
    int ffn_norm, ffn_gate, ffn_up, ffn_down, ffn_gate_bias, ffn_up_bias, ffn_down_bias, post_ffn_norm;
};

struct WeightTable {
    std::vector<WeightSource> sources; // what to load, before anything is loaded (memory_plan() counts it)
    int token_embd, output_norm, output, output_bias;
    std::vector<LayerIndex> layers;
};

// Throws Error{unsupported_model} naming a missing, misshapen or unknown tensor.
WeightTable bind_weights(const gguf::Model &file, const HParams &hparams);

// The loaded weights, by source index.
class Weights {
  public:
    // The device keeps copies of its own of all but what it reads in place, so no page of the file need stay resident.
    Weights(const WeightTable &table, Device &device);
    const Weight *operator[](int index) const { return index < 0 ? nullptr : weights_[static_cast<size_t>(index)].get(); }

  private:
    std::vector<std::unique_ptr<Weight>> weights_;
};

} // namespace muser
