// The CPU device op by op in one toy layer of every kind, against plain double arithmetic; the bits of a pass
// under every chunking and thread count; its memory figures, deadline and host float modes.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <functional>

#include "cpu_test_support.h"
#include "device/cpu/cpu_device.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace muser;
using namespace muser::test;

namespace {

constexpr int kVocab = 50, kWidth = 40, kHeads = 4, kKvHeads = 2, kHeadDim = 16, kFfn = 72;
constexpr int kQuery = kHeads * kHeadDim, kKey = kKvHeads * kHeadDim;
constexpr float kEps = 1e-5f, kPostEps = 1e-8f;

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

const Switches kLlama{};
const Switches kQwen{.qkv_bias = true, .qk_norm = true, .pairing = RopePairing::halves, .rope_pairs = 6, .tied = true};
const Switches kGemma{.embed = EmbedOp::scale, .qk_norm = true, .post_norms = true, .pairing = RopePairing::halves,
                      .window = 9, .activation = Activation::gelu_tanh, .softcap = 5, .tied = true};
const Switches kMuse{.embed = EmbedOp::rms, .qk_norm = true, .gate = true, .post_norms = true, .rope_pairs = 0, .window = 5,
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

using Doubles = std::vector<double>;

// The layer over the whole token list, in double.
class Reference {
  public:
    Reference(const Values &values, const Switches &switches) : w_(values), s_(switches) {}

    std::vector<Doubles> taps, logits;

    void run(const std::vector<int> &tokens) {
        std::vector<Doubles> keys, values;
        for (size_t t = 0; t < tokens.size(); ++t) {
            Doubles x(w_.embed.begin() + tokens[t] * kWidth, w_.embed.begin() + (tokens[t] + 1) * kWidth);
            if (s_.embed == EmbedOp::scale)
                for (double &e : x)
                    e *= kEmbedScale;
            if (s_.embed == EmbedOp::rms)
                x = rms(x, nullptr, kEps);
            taps.push_back(x);
            const Doubles a = rms(x, &w_.attn_norm, kEps);
            Doubles q = times(w_.q, a, s_.qkv_bias ? &w_.qb : nullptr);
            keys.push_back(times(w_.k, a, s_.qkv_bias ? &w_.kb : nullptr));
            values.push_back(times(w_.v, a, s_.qkv_bias ? &w_.vb : nullptr));
            turn(q, &w_.q_norm, 1, double(t));
            turn(keys.back(), &w_.k_norm, 1, double(t));
            Doubles attended = attend(q, keys, values, int(t));
            if (s_.gate) {
                const Doubles z = times(w_.z, a, nullptr);
                for (size_t i = 0; i < z.size(); ++i)
                    attended[i] /= 1 + std::exp(-z[i]);
            }
            join(x, times(w_.o, attended, nullptr), w_.post_attn);
            const Doubles b = rms(x, &w_.ffn_norm, kEps);
            Doubles g = times(w_.gate, b, nullptr);
            const Doubles u = times(w_.up, b, nullptr);
            for (size_t i = 0; i < g.size(); ++i)
                g[i] = activate(g[i]) * u[i];
            join(x, times(w_.down, g, nullptr), w_.post_ffn);
            Doubles l = times(s_.tied ? w_.embed : w_.head, rms(x, &w_.out_norm, kEps), s_.head_bias ? &w_.head_bias : nullptr);
            for (double &y : l) {
                y *= s_.logit_scale;
                if (s_.softcap != 0)
                    y = s_.softcap * std::tanh(y / s_.softcap);
            }
            logits.push_back(l);
        }
    }

    static constexpr float kEmbedScale = 6.3245554f;
    static double inv_freq(size_t k) { return float(std::pow(100.0, -double(k) / 8)); }

  private:
    static Doubles rms(const Doubles &x, const Floats *w, double eps) {
        double squares = 0;
        for (double v : x)
            squares += v * v;
        Doubles out = x;
        for (size_t i = 0; i < x.size(); ++i)
            out[i] = x[i] / std::sqrt(squares / double(x.size()) + eps) * (w ? (*w)[i] : 1);
        return out;
    }
    static Doubles times(const Floats &m, const Doubles &x, const Floats *bias) {
        Doubles out(m.size() / x.size());
        for (size_t r = 0; r < out.size(); ++r) {
            for (size_t c = 0; c < x.size(); ++c)
                out[r] += m[r * x.size() + c] * x[c];
            out[r] += bias ? (*bias)[r] : 0;
        }
        return out;
    }
    void turn(Doubles &heads, const Floats *norm, double scale, double position) const {
        for (size_t at = 0; at < heads.size(); at += kHeadDim) {
            Doubles h(heads.begin() + at, heads.begin() + at + kHeadDim);
            if (s_.qk_norm)
                h = rms(h, norm, kEps);
            for (size_t k = 0; k < s_.rope_pairs; ++k) {
                const bool halves = s_.pairing == RopePairing::halves;
                const size_t i = halves ? k : 2 * k, j = halves ? k + s_.rope_pairs : 2 * k + 1;
                const double c = std::cos(position * inv_freq(k)), n = std::sin(position * inv_freq(k)), a = h[i], b = h[j];
                h[i] = a * c - b * n;
                h[j] = a * n + b * c;
            }
            for (int d = 0; d < kHeadDim; ++d)
                heads[at + d] = h[d] * scale;
        }
    }
    Doubles attend(const Doubles &q, const std::vector<Doubles> &keys, const std::vector<Doubles> &values, int t) const {
        Doubles out(kQuery);
        for (int h = 0; h < kHeads; ++h) {
            const int kv = h / (kHeads / kKvHeads) * kHeadDim;
            double total = 0;
            for (int j = s_.window ? std::max(0, t - int(s_.window) + 1) : 0; j <= t; ++j) {
                double score = 0;
                for (int d = 0; d < kHeadDim; ++d)
                    score += q[h * kHeadDim + d] * keys[j][kv + d];
                const double weight = std::exp(score * 0.25);
                total += weight;
                for (int d = 0; d < kHeadDim; ++d)
                    out[h * kHeadDim + d] += weight * values[j][kv + d];
            }
            for (int d = 0; d < kHeadDim; ++d)
                out[h * kHeadDim + d] /= total;
        }
        return out;
    }
    void join(Doubles &x, Doubles branch, const Floats &post) const {
        if (s_.post_norms)
            branch = rms(branch, &post, kPostEps);
        for (size_t i = 0; i < x.size(); ++i)
            x[i] += branch[i];
    }
    double activate(double x) const {
        if (s_.activation == Activation::silu)
            return x / (1 + std::exp(-x));
        return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    }

    const Values &w_;
    const Switches &s_;
};

// The same through the device.
class Toy {
  public:
    Toy(const Values &v, const Switches &s, int threads, uint32_t max_rows, cpu::Level level = cpu::choose_level())
        : s_(s), device_(make_cpu_device(threads, level)) {
        const auto vector = [&](const Floats &x) { return load(x, 1, x.size(), WeightUse::vector); };
        const auto matrix = [&](const Floats &x, int cols) { return load(x, x.size() / cols, cols, WeightUse::matrix); };
        embed_ = load(v.embed, kVocab, kWidth, s.tied ? WeightUse::matrix_and_lookup : WeightUse::lookup);
        head_ = s.tied ? embed_ : matrix(v.head, kWidth);
        attn_norm_ = vector(v.attn_norm), q_ = matrix(v.q, kWidth), k_ = matrix(v.k, kWidth), v_ = matrix(v.v, kWidth);
        z_ = matrix(v.z, kWidth), o_ = matrix(v.o, kQuery), gate_ = matrix(v.gate, kWidth), up_ = matrix(v.up, kWidth);
        down_ = matrix(v.down, kFfn), post_attn_ = vector(v.post_attn), post_ffn_ = vector(v.post_ffn);
        ffn_norm_ = vector(v.ffn_norm), out_norm_ = vector(v.out_norm), q_norm_ = vector(v.q_norm), k_norm_ = vector(v.k_norm);
        qb_ = vector(v.qb), kb_ = vector(v.kb), vb_ = vector(v.vb), head_bias_ = vector(v.head_bias);
        for (size_t k = 0; k < s.rope_pairs; ++k)
            rope_.inv_freq.push_back(float(Reference::inv_freq(k)));
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

    void record(const std::vector<Row> &rows, const std::vector<int32_t> &wanted) {
        const Weight *none = nullptr;
        device_->begin(rows, PassKind::prefill);
        device_->embed(*embed_, s_.embed, s_.embed == EmbedOp::scale ? Reference::kEmbedScale : kEps);
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

std::vector<int> some_tokens(int n) {
    Random random(3);
    std::vector<int> tokens;
    for (int i = 0; i < n; ++i)
        tokens.push_back(random.below(kVocab));
    return tokens;
}

} // namespace

TEST_CASE("a layer of each family equals double arithmetic within 1e-5") {
    const Values values(1);
    const std::vector<int> tokens = some_tokens(30);
    for (const Switches &switches : {kLlama, kQwen, kGemma, kMuse}) {
        Reference reference(values, switches);
        reference.run(tokens);
        Toy toy(values, switches, 2, 32);
        const Floats got = toy.prefill(tokens, 32);
        double worst = 0;
        for (size_t t = 0; t < tokens.size(); ++t)
            for (int i = 0; i < kVocab; ++i)
                worst = std::max(worst, std::abs(got[t * kVocab + i] - reference.logits[t][i]));
        CHECK(worst < 1e-5);
        const auto taps = toy.device().taps(0);
        REQUIRE(taps.size() == tokens.size() * kWidth);
        double worst_tap = 0;
        for (size_t t = 0; t < tokens.size(); ++t)
            for (int i = 0; i < kWidth; ++i)
                worst_tap = std::max(worst_tap, std::abs(taps[t * kWidth + i] - reference.taps[t][i]));
        CHECK(worst_tap < 1e-5);
    }
}

TEST_CASE("logits have the same bits for every chunking, thread count and level") {
    const Values values(2);
    const std::vector<int> tokens = some_tokens(40);
    for (const Switches &switches : {kLlama, kQwen, kGemma, kMuse}) {
        const Floats expected = Toy(values, switches, 1, 64, cpu::Level::portable).prefill(tokens, 1);
        for (cpu::Level level : cpu::available_levels())
            for (int threads : {1, 2, 3, 5}) {
                Toy toy(values, switches, threads, 64, level);
                for (int chunk : {1, 3, 7, 40}) {
                    CAPTURE(cpu::level_name(level));
                    CAPTURE(threads);
                    CAPTURE(chunk);
                    CHECK(same_bits(toy.prefill(tokens, chunk), expected));
                }
            }
    }
}

// 384 rows: two and three threads keep rows to themselves between attentions (pass_state.h), five share every product.
TEST_CASE("a long prompt has the same bits whether threads share its products or its rows") {
    const Values values(3);
    const std::vector<int> tokens = some_tokens(384);
    for (const Switches &switches : {kLlama, kMuse}) {
        const Floats expected = Toy(values, switches, 1, 384).prefill(tokens, 64);
        for (int threads : {1, 2, 3, 5}) {
            CAPTURE(threads);
            CHECK(same_bits(Toy(values, switches, threads, 384).prefill(tokens, 384), expected));
        }
    }
}

TEST_CASE("head gives the asked rows in the asked order, and none when none are asked") {
    const Values values(4);
    const std::vector<int> tokens = some_tokens(8);
    Toy toy(values, kMuse, 2, 8);
    const Floats all = toy.prefill(tokens, 8);
    auto kv = toy.session();
    std::vector<Row> rows;
    for (int t = 0; t < 8; ++t)
        rows.push_back({kv.get(), tokens[t], t});
    const std::vector<int32_t> wanted = {6, 0, 7, 3};
    toy.record(rows, wanted);
    toy.device().commit_and_wait({});
    for (size_t i = 0; i < wanted.size(); ++i)
        CHECK(same_bits(toy.device().logits(i), std::span(all).subspan(wanted[i] * kVocab, kVocab)));
    toy.record(rows, {});
    toy.device().commit_and_wait({});
    CHECK_THROWS_AS(toy.device().logits(0), Error);
}

TEST_CASE("a pass whose deadline has passed throws timeout, and the next pass is as if it had not been") {
    const Values values(5);
    const std::vector<int> tokens = some_tokens(20);
    Toy toy(values, kLlama, 3, 32);
    const Floats expected = toy.prefill(tokens, 20);
    auto kv = toy.session();
    std::vector<Row> rows;
    for (int t = 0; t < 20; ++t)
        rows.push_back({kv.get(), tokens[t], t});
    for (int i = 0; i < 50; ++i) {
        toy.record(rows, {0});
        try {
            toy.device().commit_and_wait(Clock::now() + std::chrono::microseconds(i));
        } catch (const Error &error) {
            CHECK(error.code() == ErrorCode::timeout);
        }
    }
    toy.record(rows, {0});
    CHECK_THROWS_AS(toy.device().commit_and_wait(Clock::now() - std::chrono::seconds(1)), Error);
    CHECK(same_bits(toy.prefill(tokens, 20), expected));
}

TEST_CASE("a host thread that flushes subnormals or rounds elsewhere changes no bit, and gets its mode back") {
    const Values values(6);
    const std::vector<int> tokens = some_tokens(20);
    Toy toy(values, kGemma, 2, 32);
    const Floats expected = toy.prefill(tokens, 20);
    const int before = std::fegetround();
    std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(mode | 0x8040);
#endif
    const Floats got = toy.prefill(tokens, 20);
#if defined(__x86_64__)
    CHECK((_mm_getcsr() & ~0x3fu) == ((mode | 0x8040) & ~0x3fu)); // all but the sticky flags
    _mm_setcsr(mode);
#endif
    CHECK(std::fegetround() == FE_UPWARD);
    std::fesetround(before);
    CHECK(same_bits(got, expected));
}

TEST_CASE("thread counts out of range are refused by name") {
    CHECK_THROWS_WITH_AS(make_cpu_device(-1), "threads must be 0 (all cores) or more, not -1", Error);
    CHECK_THROWS_AS(make_cpu_device(1 << 20), Error);
    CHECK(make_cpu_device(0)->info().name == "cpu");
}
