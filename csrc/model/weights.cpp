#include "model/weights.h"

#include <map>
#include <set>

namespace muser {

namespace {

class Binder {
  public:
    Binder(const gguf::Model &file, WeightTable &table) : file_(file), table_(table) {}

    bool has(const std::string &name) const { return file_.find_tensor(name) != nullptr; }

    int require(const std::string &name, uint64_t rows, uint64_t cols, WeightUse use) {
        const int index = optional(name, rows, cols, use);
        if (index < 0)
            unsupported("tensor " + name + " is missing");
        return index;
    }

    int optional(const std::string &name, uint64_t rows, uint64_t cols, WeightUse use) {
        const gguf::Tensor *tensor = checked(name, rows, cols);
        return tensor ? add(*tensor, 0, rows, use) : -1;
    }

    // Rows [first, first + rows) of a fused tensor of `all` rows (attn_qkv holds Q, K and V).
    int part(const std::string &name, uint64_t first, uint64_t rows, uint64_t all, uint64_t cols) {
        return add(*checked(name, all, cols), first, rows, WeightUse::matrix);
    }

    int norm(const std::string &name, uint64_t n) { return require(name + ".weight", 1, n, WeightUse::vector); }
    int bias(const std::string &name, uint64_t n) { return optional(name + ".bias", 1, n, WeightUse::vector); }

    void ignore(const std::string &name) { used_.insert(name); }

    void refuse_unknown() const {
        for (const gguf::Tensor &tensor : file_.tensors())
            if (!used_.contains(std::string(tensor.name)))
                unsupported("tensor " + std::string(tensor.name) + " has no place in this architecture");
    }

  private:
    const gguf::Tensor *checked(const std::string &name, uint64_t rows, uint64_t cols) {
        const gguf::Tensor *tensor = file_.find_tensor(name);
        if (!tensor)
            return nullptr;
        if (tensor->rows() != rows || tensor->cols() != cols || tensor->n_dims > 2)
            unsupported("tensor " + name + " has shape [" + std::to_string(tensor->cols()) + ", " +
                        std::to_string(tensor->rows()) + "], expected [" + std::to_string(cols) + ", " +
                        std::to_string(rows) + "]");
        used_.insert(name);
        return tensor;
    }

    int add(const gguf::Tensor &tensor, uint64_t first, uint64_t rows, WeightUse use) {
        const size_t row_bytes = tensor.data.size() / tensor.rows();
        const auto data = tensor.data.subspan(first * row_bytes, rows * row_bytes);
        table_.sources.push_back({{tensor.name, tensor.type, rows, tensor.cols(), data, tensor.file}, use});
        return static_cast<int>(table_.sources.size()) - 1;
    }

    [[noreturn]] void unsupported(const std::string &what) const {
        throw Error(ErrorCode::unsupported_model, file_.path() + ": " + what, {{"path", file_.path()}});
    }

    const gguf::Model &file_;
    WeightTable &table_;
    std::set<std::string> used_;
};

void bind_qkv(Binder &bind, const std::string &blk, const HParams &h, LayerIndex &layer) {
    const uint64_t d = h.d_model, n_q = uint64_t{h.n_heads} * h.head_dim, n_kv = uint64_t{h.n_kv_heads} * h.head_dim;
    if (bind.has(blk + "attn_qkv.weight")) {
        const uint64_t all = n_q + 2 * n_kv;
        layer.q = bind.part(blk + "attn_qkv.weight", 0, n_q, all, d);
        layer.k = bind.part(blk + "attn_qkv.weight", n_q, n_kv, all, d);
        layer.v = bind.part(blk + "attn_qkv.weight", n_q + n_kv, n_kv, all, d);
        layer.q_bias = layer.k_bias = layer.v_bias = -1;
        return;
    }
    layer.q = bind.require(blk + "attn_q.weight", n_q, d, WeightUse::matrix);
    layer.k = bind.require(blk + "attn_k.weight", n_kv, d, WeightUse::matrix);
    layer.v = bind.require(blk + "attn_v.weight", n_kv, d, WeightUse::matrix);
    layer.q_bias = bind.bias(blk + "attn_q", n_q);
    layer.k_bias = bind.bias(blk + "attn_k", n_kv);
    layer.v_bias = bind.bias(blk + "attn_v", n_kv);
}

LayerIndex bind_layer(Binder &bind, const std::string &blk, const HParams &h) {
    const uint64_t d = h.d_model, f = h.d_ff, n_q = uint64_t{h.n_heads} * h.head_dim;
    LayerIndex layer{};
    layer.attn_norm = bind.norm(blk + "attn_norm", d);
    bind_qkv(bind, blk, h, layer);
    layer.q_norm = h.qk_norm ? bind.norm(blk + "attn_q_norm", h.head_dim) : -1;
    layer.k_norm = h.qk_norm ? bind.norm(blk + "attn_k_norm", h.head_dim) : -1;
    layer.attn_gate = h.attention_gate ? bind.require(blk + "attn_gate.weight", n_q, d, WeightUse::matrix) : -1;
    layer.out = bind.require(blk + "attn_output.weight", d, n_q, WeightUse::matrix);
    layer.out_bias = bind.bias(blk + "attn_output", d);
    layer.post_attn_norm = h.post_norms ? bind.norm(blk + "post_attention_norm", d) : -1;
    layer.ffn_norm = bind.norm(blk + "ffn_norm", d);
    layer.ffn_gate = bind.require(blk + "ffn_gate.weight", f, d, WeightUse::matrix);
    layer.ffn_up = bind.require(blk + "ffn_up.weight", f, d, WeightUse::matrix);
    layer.ffn_down = bind.require(blk + "ffn_down.weight", d, f, WeightUse::matrix);
    layer.ffn_gate_bias = bind.bias(blk + "ffn_gate", f);
    layer.ffn_up_bias = bind.bias(blk + "ffn_up", f);
    layer.ffn_down_bias = bind.bias(blk + "ffn_down", d);
    layer.post_ffn_norm = h.post_norms ? bind.norm(blk + "post_ffw_norm", d) : -1;
    return layer;
}

} // namespace

WeightTable bind_weights(const gguf::Model &file, const HParams &h) {
    WeightTable table;
    Binder bind(file, table);
    const bool tied = h.tied_allowed && !bind.has("output.weight");
    table.token_embd = bind.require("token_embd.weight", h.vocab, h.d_model,
                                    tied ? WeightUse::head_and_lookup : WeightUse::lookup);
    table.output_norm = bind.norm("output_norm", h.d_model);
    table.output = tied ? table.token_embd : bind.require("output.weight", h.vocab, h.d_model, WeightUse::head);
    table.output_bias = bind.bias("output", h.vocab);
    for (uint32_t i = 0; i < h.n_layers; ++i)
        table.layers.push_back(bind_layer(bind, "blk." + std::to_string(i) + ".", h));
    if (h.architecture == "llama")
        bind.ignore("rope_freqs.weight"); // already part of the rope tables (read_hparams)
    bind.refuse_unknown();
    return table;
}

Weights::Weights(const WeightTable &table, Device &device) : weights_(device.load_weights(table.sources)) {
    for (const auto &[view, use] : table.sources)
        if (!device.keeps_file(view.type, use))
            view.file->release(view.data);
}

} // namespace muser
