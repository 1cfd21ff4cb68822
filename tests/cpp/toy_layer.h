// One layer of every kind with random weights, and a head, run through a CPU device.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "cpu_test_support.h"
#include "device/cpu/cpu_device.h"

namespace muser::test {

inline constexpr int kVocab = 50, kWidth = 40, kHeads = 4, kKvHeads = 2, kHeadDim = 16, kFfn = 72;
inline constexpr int kQuery = kHeads * kHeadDim, kKey = kKvHeads * kHeadDim;
inline constexpr float kEps = 1e-5f, kPostEps = 1e-8f, kEmbedScale = 6.3245554f;

inline double inv_freq(size_t k) { return float(std::pow(100.0, -double(k) / 8)); }

// The switches of the graph that change which ops run, or how.
struct Switches {
    EmbedOp embed = EmbedOp::none;
    bool qkv_bias = false, qk_norm = false, gate = false, post_norms = false;
    RopePairing pairing = RopePairing::adjacent;
    size_t rope_pairs = kHeadDim / 2; // 0: no rope
    uint32_t window = 0;
    Activation activation = Activation::silu;
    float logit_scale = 1, softcap = 0;
    bool head_bias = false, tied = false;
};

inline const Switches kLlama{};
inline const Switches kQwen{.qkv_bias = true, .qk_norm = true, .pairing = RopePairing::halves, .rope_pairs = 6, .tied = true};
inline const Switches kGemma{.embed = EmbedOp::scale, .qk_norm = true, .post_norms = true, .pairing = RopePairing::halves,
                      .window = 9, .activation = Activation::gelu_tanh, .softcap = 5, .tied = true};
inline const Switches kMuse{.embed = EmbedOp::rms, .qk_norm = true, .gate = true, .post_norms = true, .rope_pairs = 0, .window = 5,
                     .logit_scale = 0.2f, .softcap = 2, .head_bias = true};

struct Values { // one layer and the head
    Floats embed, attn_norm, q, k, v, z, qb, kb, vb, q_norm, k_norm, o, post_attn, ffn_norm, gate, up, down, post_ffn, out_norm,
        head, head_bias;
    explicit Values(uint32_t seed) {
        Random random(seed);
        const auto matrix = [&](int rows, int cols) { return random.normals(size_t(rows) * cols, 1 / std::sqrt(float(cols))); };
        const auto vector = [&](int n) {
            Floats x = random.normals(n, 0.3f);
            for (float &w : x)
                w += 1;
            return x;
        };
        embed = random.normals(size_t(kVocab) * kWidth);
        q = matrix(kQuery, kWidth), k = matrix(kKey, kWidth), v = matrix(kKey, kWidth), z = matrix(kQuery, kWidth);
        qb = vector(kQuery), kb = vector(kKey), vb = vector(kKey), q_norm = vector(kHeadDim), k_norm = vector(kHeadDim);
        o = matrix(kWidth, kQuery), gate = matrix(kFfn, kWidth), up = matrix(kFfn, kWidth), down = matrix(kWidth, kFfn);
        attn_norm = vector(kWidth), post_attn = vector(kWidth), ffn_norm = vector(kWidth), post_ffn = vector(kWidth);
        out_norm = vector(kWidth), head = matrix(kVocab, kWidth), head_bias = vector(kVocab);
    }
};

class Toy {
  public:
    Toy(const Values &v, const Switches &s, int threads, uint32_t max_rows, cpu::Level level = cpu::choose_level())
        : s_(s), device_(make_cpu_device(threads, level)) {
        const auto vector = [&](const Floats &x) { return load(x, 1, x.size(), WeightUse::vector); };
        const auto matrix = [&](const Floats &x, int cols) { return load(x, x.size() / cols, cols, WeightUse::matrix); };
        embed_ = load(v.embed, kVocab, kWidth, s.tied ? WeightUse::head_and_lookup : WeightUse::lookup);
        head_ = s.tied ? embed_ : matrix(v.head, kWidth);
        attn_norm_ = vector(v.attn_norm), q_ = matrix(v.q, kWidth), k_ = matrix(v.k, kWidth), v_ = matrix(v.v, kWidth);
        z_ = matrix(v.z, kWidth), o_ = matrix(v.o, kQuery), gate_ = matrix(v.gate, kWidth), up_ = matrix(v.up, kWidth);
        down_ = matrix(v.down, kFfn), post_attn_ = vector(v.post_attn), post_ffn_ = vector(v.post_ffn);
        ffn_norm_ = vector(v.ffn_norm), out_norm_ = vector(v.out_norm), q_norm_ = vector(v.q_norm), k_norm_ = vector(v.k_norm);
        qb_ = vector(v.qb), kb_ = vector(v.kb), vb_ = vector(v.vb), head_bias_ = vector(v.head_bias);
        for (size_t k = 0; k < s.rope_pairs; ++k)
            rope_.inv_freq.push_back(float(inv_freq(k)));
        rope_.pairing = s.pairing;
        device_->set_workspace(workspace(max_rows));
    }

    static WorkspaceSpec workspace(uint32_t max_rows) {
        WorkspaceSpec spec{max_rows, max_rows, 1, kVocab, {}};
        const auto set = [&](Act act, int width) { spec.widths[static_cast<size_t>(act)] = static_cast<uint32_t>(width); };
        for (Act act : {Act::residual, Act::normed, Act::branch})
            set(act, kWidth);
        for (Act act : {Act::query, Act::gate, Act::attention})
            set(act, kQuery);
        for (Act act : {Act::key, Act::value})
            set(act, kKey);
        for (Act act : {Act::ffn_gate, Act::ffn_up})
            set(act, kFfn);
        return spec;
    }

    std::unique_ptr<KvStore> session(KvType type = KvType::f32) {
        const PlaneSpec plane{384, kKvHeads, kHeadDim, type, false};
        return device_->make_kv({&plane, 1});
    }

    void record(const std::vector<Row> &rows, const std::vector<int32_t> &wanted, PassKind kind = PassKind::prefill) {
        const Weight *none = nullptr;
        device_->begin(rows, kind);
        device_->embed(*embed_, s_.embed, s_.embed == EmbedOp::scale ? kEmbedScale : kEps);
        device_->tap();
        device_->norm(*attn_norm_, kEps);
        std::vector<Projection> first = {{q_, s_.qkv_bias ? qb_ : none, Act::query}, {k_, s_.qkv_bias ? kb_ : none, Act::key},
                                         {v_, s_.qkv_bias ? vb_ : none, Act::value}};
        if (s_.gate)
            first.push_back({z_, none, Act::gate});
        device_->matmul(Act::normed, first);
        device_->qk_norm_rope({s_.qk_norm ? q_norm_ : none, s_.qk_norm ? k_norm_ : none, kEps,
                               s_.rope_pairs ? &rope_ : nullptr, kHeads, kKvHeads, kHeadDim});
        const AttentionSpec attention{0, kHeads, kKvHeads, kHeadDim, 0.25f, s_.window};
        device_->kv_store(attention);
        device_->attention(attention);
        if (s_.gate)
            device_->attention_gate();
        const Projection o{o_, none, Act::branch}, down{down_, none, Act::branch};
        device_->matmul(Act::attention, {&o, 1});
        device_->residual_norm(s_.post_norms ? post_attn_ : none, kPostEps, ffn_norm_, kEps);
        const Projection ffn[] = {{gate_, none, Act::ffn_gate}, {up_, none, Act::ffn_up}};
        device_->matmul(Act::normed, ffn);
        device_->glu(s_.activation);
        device_->matmul(Act::ffn_gate, {&down, 1});
        device_->residual_norm(s_.post_norms ? post_ffn_ : none, kPostEps, none, 0);
        device_->head({out_norm_, kEps, head_, s_.head_bias ? head_bias_ : none, s_.logit_scale, s_.softcap}, wanted);
    }

    // Logits of every token, [tokens, vocab], `chunk` rows at a time.
    Floats prefill(const std::vector<int> &tokens, int chunk) {
        auto kv = session();
        Floats all;
        for (int at = 0; at < int(tokens.size()); at += chunk) {
            std::vector<Row> rows;
            std::vector<int32_t> wanted;
            for (int t = at; t < std::min(at + chunk, int(tokens.size())); ++t) {
                wanted.push_back(int(rows.size()));
                rows.push_back({kv.get(), tokens[t], t});
            }
            record(rows, wanted);
            device_->commit_and_wait({});
            for (size_t i = 0; i < rows.size(); ++i)
                all.insert(all.end(), device_->logits(i).begin(), device_->logits(i).end());
        }
        return all;
    }

    Device &device() { return *device_; }

  private:
    const Weight *load(const Floats &x, uint64_t rows, uint64_t cols, WeightUse use) {
        weights_.push_back(std::make_unique<TestWeight>(*device_, x, rows, cols, use));
        return weights_.back()->get();
    }

    const Switches s_;
    std::unique_ptr<Device> device_;
    std::vector<std::unique_ptr<TestWeight>> weights_;
    const Weight *embed_, *head_, *attn_norm_, *q_, *k_, *v_, *z_, *o_, *gate_, *up_, *down_, *post_attn_, *post_ffn_, *ffn_norm_,
        *out_norm_, *q_norm_, *k_norm_, *qb_, *kb_, *vb_, *head_bias_;
    RopeSpec rope_;
};

inline std::vector<int> some_tokens(int n, uint32_t seed = 3) {
    Random random(seed);
    std::vector<int> tokens;
    for (int i = 0; i < n; ++i)
        tokens.push_back(random.below(kVocab));
    return tokens;
}

} // namespace muser::test
