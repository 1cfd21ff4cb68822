// The table of families (their published configurations; names and defaults as llama.cpp writes and reads them).
#include "model/hparams.h"

#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "gguf/dequant.h"
#include "model/metadata.h"

namespace muser {

namespace {

// Far above any published model and far below what could overflow a product of two of them.
constexpr uint32_t kMaxHeadDim = 512; // the widest head that the attention kernels hold in their scratch
constexpr uint32_t kMaxLayers = 1024, kMaxWidth = 1u << 20, kMaxHeads = 1024, kMaxContext = 1u << 24;

// inv_freq[k] = theta^(-2k / n_rot), rounded to float32 as transformers does, then divided by the
// linear scaling factor and by the optional per-frequency factors of Llama 3 (rope_freqs.weight).
RopeSpec make_rope(RopePairing pairing, uint32_t n_rot, double theta, double factor, const std::vector<float> &factors) {
    RopeSpec rope{std::vector<float>(n_rot / 2), pairing};
    for (uint32_t k = 0; k < n_rot / 2; ++k) {
        const auto base = static_cast<float>(1.0 / std::pow(theta, 2.0 * k / n_rot));
        rope.inv_freq[k] = static_cast<float>(base / factor / (factors.empty() ? 1.0 : factors[k]));
    }
    return rope;
}

std::vector<float> read_rope_factors(ArchKeys &keys, uint32_t n_rot) {
    const gguf::Tensor *tensor = keys.file().find_tensor("rope_freqs.weight");
    if (!tensor)
        return {};
    if (tensor->type != gguf::BlockType::F32 || tensor->cols() != n_rot / 2 || tensor->rows() != 1)
        keys.unsupported("tensor rope_freqs.weight is not F32 of " + std::to_string(n_rot / 2) + " values");
    std::vector<float> factors(n_rot / 2);
    gguf::dequantize(tensor->type, tensor->data.data(), factors.data(), factors.size());
    for (float factor : factors)
        if (!(std::isfinite(factor) && factor > 0))
            keys.unsupported("tensor rope_freqs.weight holds " + std::to_string(factor));
    return factors;
}

// The linear scaling factor; every other kind of rope scaling is refused.
double read_linear_scaling(ArchKeys &keys) {
    const std::string type = keys.text("rope.scaling.type").value_or("linear");
    if (type != "none" && type != "linear")
        keys.unsupported("rope.scaling.type " + type);
    const float legacy = keys.positive_or("rope.scale_linear", 1.0f);
    const float factor = keys.positive_or("rope.scaling.factor", legacy);
    return type == "none" ? 1.0 : factor;
}

// Published models have 10,000 to 10,000,000. Outside of this range the file is damaged: a base below 1 turns faster
// at every pair, up to infinity, and the cosines of infinite angles would make every logit NaN.
float freq_base(ArchKeys &keys, const std::string &key, float fallback) {
    const float base = keys.positive_or(key, fallback);
    if (!(base >= 1.0f && base <= 1e12f)) {
        char shown[32];
        std::snprintf(shown, sizeof shown, "%g", static_cast<double>(base));
        keys.unsupported(key + " " + shown + ", which is not in 1..1e12");
    }
    return base;
}

uint32_t read_n_rot(ArchKeys &keys, const HParams &h) {
    const uint64_t n_rot = keys.uint("rope.dimension_count").value_or(h.head_dim);
    if (n_rot < 2 || n_rot > h.head_dim || n_rot % 2)
        keys.unsupported("rope.dimension_count " + std::to_string(n_rot) + " with a head size of " +
                         std::to_string(h.head_dim));
    return static_cast<uint32_t>(n_rot);
}

// True for sliding layers. The key is an array of booleans, or a scalar n: layer i is full iff i % n == n - 1
// (0: none is full).
std::vector<bool> read_sliding_pattern(ArchKeys &keys, uint32_t n_layers, uint64_t fallback) {
    const gguf::Entry *entry = keys.entry("attention.sliding_window_pattern");
    if (entry) {
        if (const auto *array = std::get_if<gguf::Array>(&entry->value)) {
            if (array->element_type != gguf::kBool || array->count != n_layers)
                keys.unsupported("attention.sliding_window_pattern is not an array of " + std::to_string(n_layers) +
                                 " booleans");
            std::vector<bool> sliding;
            array->each([&](const auto &flag) {
                if constexpr (std::is_same_v<std::decay_t<decltype(flag)>, bool>)
                    sliding.push_back(flag);
            });
            return sliding;
        }
    }
    const uint64_t period = entry ? *keys.uint("attention.sliding_window_pattern") : fallback;
    std::vector<bool> sliding(n_layers);
    for (uint32_t i = 0; i < n_layers; ++i)
        sliding[i] = period == 0 || i % period != period - 1;
    return sliding;
}

void read_windows(ArchKeys &keys, HParams &h, uint64_t pattern, int full_rope, int sliding_rope) {
    const uint32_t window = keys.required_uint("attention.sliding_window", kMaxContext);
    const std::vector<bool> sliding = read_sliding_pattern(keys, h.n_layers, pattern);
    for (uint32_t i = 0; i < h.n_layers; ++i)
        h.layers.push_back(sliding[i] ? LayerParams{window, sliding_rope} : LayerParams{0, full_rope});
}

void common(ArchKeys &keys, HParams &h) {
    h.n_layers = keys.required_uint("block_count", kMaxLayers);
    h.context = keys.required_uint("context_length", kMaxContext);
    h.d_model = keys.required_uint("embedding_length", kMaxWidth);
    h.d_ff = keys.required_uint("feed_forward_length", kMaxWidth);
    h.n_heads = keys.required_uint("attention.head_count", kMaxHeads);
    h.n_kv_heads = keys.entry("attention.head_count_kv") ? keys.required_uint("attention.head_count_kv", kMaxHeads) : h.n_heads;
    if (h.n_heads % h.n_kv_heads)
        keys.unsupported(std::to_string(h.n_heads) + " heads are not a multiple of " + std::to_string(h.n_kv_heads) + " KV heads");
    if (!keys.entry("attention.key_length") && h.d_model % h.n_heads)
        keys.unsupported("attention.key_length is missing and embedding_length is not a multiple of head_count");
    h.head_dim = keys.entry("attention.key_length") ? keys.required_uint("attention.key_length", kMaxHeadDim) : h.d_model / h.n_heads;
    if (h.head_dim % 8)
        keys.unsupported("a head size of " + std::to_string(h.head_dim) + ", not a multiple of 8");
    if (h.head_dim > kMaxHeadDim)
        keys.unsupported("a head size of " + std::to_string(h.head_dim) + " (embedding_length / attention.head_count)");
    if (keys.uint("attention.value_length").value_or(h.head_dim) != h.head_dim)
        keys.unsupported("attention.value_length differs from attention.key_length");
    h.norm_eps = keys.required_positive("attention.layer_norm_rms_epsilon");
    h.attention_scale = 1.0f / std::sqrt(static_cast<float>(h.head_dim));
    if (keys.uint("expert_count").value_or(0) != 0)
        keys.unsupported("expert_count (a mixture of experts)");
    keys.harmless({"vocab_size", "attention.causal", "attention.layer_norm_epsilon"});
}

// Families whose layers are all alike: one rope, full attention.
void uniform_layers(ArchKeys &keys, HParams &h, RopePairing pairing, const std::vector<float> &factors) {
    h.ropes.push_back(make_rope(pairing, read_n_rot(keys, h), freq_base(keys, "rope.freq_base", 10000.0f),
                                read_linear_scaling(keys), factors));
    h.layers.assign(h.n_layers, LayerParams{0, 0});
}

void llama(ArchKeys &keys, HParams &h) {
    uniform_layers(keys, h, RopePairing::adjacent, read_rope_factors(keys, read_n_rot(keys, h)));
    h.attention_scale = keys.positive_or("attention.scale", h.attention_scale);
}

void qwen2(ArchKeys &keys, HParams &h) { uniform_layers(keys, h, RopePairing::halves, {}); }

void qwen3(ArchKeys &keys, HParams &h) {
    uniform_layers(keys, h, RopePairing::halves, {});
    h.qk_norm = true;
}

void gemma3(ArchKeys &keys, HParams &h) {
    h.embed_op = EmbedOp::scale;
    h.embed_x = std::sqrt(static_cast<float>(h.d_model));
    h.qk_norm = h.post_norms = true;
    h.post_norm_eps = h.norm_eps;
    h.activation = Activation::gelu_tanh;
    // The 27B model (62 layers) scales by the width of d_model / heads instead of the head size.
    if (h.n_layers == 62)
        h.attention_scale = 1.0f / std::sqrt(static_cast<float>(h.d_model) / static_cast<float>(h.n_heads));
    const uint32_t n_rot = read_n_rot(keys, h);
    h.ropes.push_back(make_rope(RopePairing::halves, n_rot, freq_base(keys, "rope.freq_base", 1e6f), read_linear_scaling(keys), {}));
    h.ropes.push_back(make_rope(RopePairing::halves, n_rot, freq_base(keys, "rope.freq_base_swa", 10000.0f), 1.0, {}));
    read_windows(keys, h, 6, 0, 1);
    h.softcap = keys.real("final_logit_softcapping").value_or(0.0f);
    if (!(std::isfinite(h.softcap) && h.softcap >= 0))
        keys.unsupported("final_logit_softcapping is not a non-negative number");
    if (keys.real("attn_logit_softcapping").value_or(0.0f) != 0)
        keys.unsupported("attn_logit_softcapping (capped attention scores)");
    keys.harmless({"mm.tokens_per_image"});
}

void muse_glimmer(ArchKeys &keys, HParams &h) {
    h.embed_op = EmbedOp::rms;
    h.embed_x = h.norm_eps;
    h.qk_norm = h.post_norms = h.attention_gate = true;
    h.post_norm_eps = 1e-8f; // not in the file: fixed by the architecture
    h.tied_allowed = false;
    const float theta = freq_base(keys, "rope.freq_base", 500000.0f);
    const float theta_sliding = freq_base(keys, "rope.freq_base_swa", theta);
    h.ropes.push_back(make_rope(RopePairing::adjacent, read_n_rot(keys, h), theta_sliding, read_linear_scaling(keys), {}));
    read_windows(keys, h, 4, -1, 0);
    h.logit_scale = keys.required_positive("logit_scale");
    h.softcap = keys.positive_or("final_logit_softcapping", 30.0f); // a file without the key is still capped, at 30
}

} // namespace

HParams read_hparams(const gguf::Model &file) {
    static const std::map<std::string, std::function<void(ArchKeys &, HParams &)>> families = {
        {"llama", llama}, {"qwen2", qwen2}, {"qwen3", qwen3}, {"gemma3", gemma3}, {"muse-glimmer", muse_glimmer}};

    HParams h;
    h.architecture = std::string(file.get_string("general.architecture").value_or(""));
    ArchKeys keys(file, h.architecture);
    if (h.architecture.empty())
        keys.unsupported("the key general.architecture is missing");
    const auto family = families.find(h.architecture);
    if (family == families.end())
        keys.unsupported("architecture " + h.architecture);
    const gguf::Tensor *embedding = file.find_tensor("token_embd.weight");
    if (!embedding)
        keys.unsupported("tensor token_embd.weight is missing");
    if (embedding->rows() > (1u << 24))
        keys.unsupported("a vocabulary of " + std::to_string(embedding->rows()) + " tokens");
    h.vocab = static_cast<uint32_t>(embedding->rows());
    common(keys, h);
    family->second(keys, h);
    if (keys.uint("vocab_size").value_or(h.vocab) != h.vocab)
        keys.unsupported("vocab_size differs from the rows of token_embd.weight");
    keys.refuse_unknown();
    return h;
}

} // namespace muser
