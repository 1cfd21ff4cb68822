// From one row of logits to one token. One sampler a slot: it owns its random stream and its scratch.
// Chain of this stage, in llama.cpp's order: temperature 0 -> the first maximum, no draw; otherwise
// top_k -> top_p -> min_p -> temperature -> one draw. Called outside the accelerator.
//
// The rules, exact enough to be rebuilt (tests/test_sampler.py does):
//   order    tokens are ranked by logit, descending, and ties by token id, ascending; each filter keeps a
//            prefix of this ranking, so the outcome never depends on how the selection is computed
//   weight   floor(2^30 * exp((logit - best) / T)), an integer; exp is float32 (weights.h). Sums of integers
//            are exact in any order. A token more than 20.8 * T below the best has weight 0
//   top_k    the first k of the ranking
//   top_p    the shortest prefix whose weights (at T = 1, among what top_k left) sum to >= top_p * total
//   min_p    logit >= best + log(min_p), the sum rounded to float32
//   draw     one 53-bit number u of the stream a token; r = floor(u * total / 2^53); the token is the first,
//            by ascending id, at which the running sum of weights (at T = temperature) exceeds r
//   mask     tokens that it does not allow count as -inf before all else; a NaN under it is still refused
//   +inf     a +inf logit is certain: the row counts as 0 where it is +inf and as -inf elsewhere
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sample/random_stream.h"

namespace muser {

struct SamplerParams {
    double temperature = 1.0; // >= 0, finite
    int32_t top_k = 0;        // 0 or -1: off
    double top_p = 1.0;       // (0, 1]
    double min_p = 0.0;       // [0, 1]
    uint64_t seed = 0;
};

using AllowedTokens = std::optional<std::span<const uint32_t>>;

class Sampler {
  public:
    explicit Sampler(const SamplerParams &params); // throws Error{parameter}

    // Throws Error{parameter "logits"} for an empty row, a NaN (field "index"), or a row that is all -inf;
    // the stream has not moved then. Exactly one draw a token, or none at temperature 0.
    // mask: nothing, or one bit a token, set where the token is allowed; token i is bit i % 32 of word i / 32.
    // Error{parameter "mask"} unless it has ceil(vocab / 32) words; Error{logits} if no allowed token is above -inf.
    int32_t sample(std::span<const float> logits, AllowedTokens mask = {});

    // These tokens count as -inf from now on, as the end tokens do before min_tokens; empty: none.
    void suppress(std::vector<int32_t> tokens) { suppressed_ = std::move(tokens); }

    const SamplerParams &params() const noexcept { return params_; }

  private:
    struct Candidate {
        float logit;
        int32_t token;
        uint32_t weight;
    };
    static bool better(const Candidate &a, const Candidate &b);

    int32_t choose(std::span<const float> logits, float best);
    std::span<const float> without_suppressed(std::span<const float> logits);
    float summarize(std::span<const float> logits);
    int32_t first_maximum(std::span<const float> logits, float best) const;
    int32_t sample_all(std::span<const float> logits, float best);
    int32_t sample_filtered(std::span<const float> logits, float best);
    int32_t certain(std::span<const float> logits);
    uint64_t weigh_all(std::span<const float> logits, float best, float inverse_temperature);
    void gather(std::span<const float> logits, float threshold);
    float top_k_bound();
    float top_p_bound(float best, uint64_t total) const;
    void keep_top_k();
    void keep_top_p(uint64_t total);
    void keep_until(const Candidate &last);
    uint64_t weigh_candidates(float best, float inverse_temperature);
    uint64_t draw(uint64_t total);

    SamplerParams params_;
    float inverse_temperature_ = 1.0f;
    RandomStream distribution_; // stream 0 of the seed; later features get streams of their own
    std::vector<int32_t> suppressed_;
    // Scratch, kept between tokens so that sampling allocates nothing.
    std::vector<float> masked_;            // the row with -inf for what the mask forbids
    std::vector<float> unsuppressed_;      // the copy of a row that has suppressed tokens
    std::vector<float> block_best_;        // the best logit of each block
    std::vector<uint64_t> block_weight_;   // the sum of each block's weights
    std::vector<uint32_t> weights_;        // one a token
    std::vector<Candidate> candidates_;    // ascending by token id
    std::vector<Candidate> ranking_;       // the copy that selection may shuffle
    std::vector<float> block_ranking_;
};

} // namespace muser
