// From one row of logits to one token: the chain. One sampler a slot; it owns its random streams, what the steps
// remember and its scratch. Called outside the accelerator.
//
// Order: the mask and suppressed tokens, then a row with +inf becomes 0 where it is +inf and -inf elsewhere, then logit_bias; then the steps
// of `samplers` that are on, by default llama.cpp's order (params.h); then the draw, or mirostat, or adaptive-p. At
// temperature 0 only penalties and dry of the steps run, and the token is the first maximum, without any draw.
//
// The rules are exact enough to be rebuilt, and give the same bits on every machine: tests/sampler_oracle.py is a slow
// second version of them. They stand in candidates.h (rank, weight, scale) and with each step. The draw:
//   one number u a token of the stream `distribution`; r = floor(u * total / 2^53); the token is the first, by
//   ascending id, at which the running sum of the weights exceeds r
// A call that throws leaves streams and memory as they were.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sample/adaptive.h"
#include "sample/candidates.h"
#include "sample/dry.h"
#include "sample/history.h"
#include "sample/params.h"
#include "sample/random_stream.h"
#include "sample/token_mask.h"

namespace muser {

// What changes from token to token; state.h writes it down. Copied for a fork.
struct SamplerState {
    explicit SamplerState(const SamplerParams &params);

    RandomStream distribution, xtc, mirostat, adaptive;
    double mu; // of mirostat
    AdaptiveState adaptive_average;
    History history;
};

class Sampler {
  public:
    explicit Sampler(const SamplerParams &params); // throws Error{parameter}
    Sampler(const Sampler &other) : Sampler(other.params_) {
        state_ = other.state_;
        suppressed_ = other.suppressed_;
    }
    Sampler &operator=(const Sampler &) = delete;

    // The token is accepted (see there) before it returns.
    // Error{parameter "logits"} for an empty row, a NaN (field "index"), or a row that is all -inf;
    // Error{parameter "mask"} unless it has ceil(vocab / 32) words; Error{logits} if mask, suppress() and logit_bias leave none.
    int32_t sample(std::span<const float> logits, AllowedTokens mask = {});

    // These tokens count as -inf from now on, as the end tokens do before min_tokens; empty: none. Not part of the state.
    void suppress(std::vector<int32_t> tokens) { suppressed_ = std::move(tokens); }

    // Tokens that came from elsewhere, the prompt first of all: what penalties and DRY look back at.
    void accept(std::span<const int32_t> tokens);

    const SamplerParams &params() const noexcept { return params_; }
    const SamplerState &state() const noexcept { return state_; }
    void restore(SamplerState state) { state_ = std::move(state); }

  private:
    void load(std::span<const float> logits, AllowedTokens mask);
    void apply(Step step);
    int32_t choose();

    SamplerParams params_;
    double log_min_p_;
    SamplerState state_;
    std::vector<int32_t> suppressed_;
    Dry dry_;
    Candidates set_;
    std::vector<float> row_; // the row, where the mask or a +inf changes it
};

} // namespace muser
