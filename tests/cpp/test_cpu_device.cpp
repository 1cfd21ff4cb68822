// The CPU device op by op in one toy layer of every kind, against plain double arithmetic; the bits of a pass
// under every chunking and thread count; its memory figures, deadline and host float modes.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <functional>

#include "toy_layer.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace muser;
using namespace muser::test;

namespace {

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
