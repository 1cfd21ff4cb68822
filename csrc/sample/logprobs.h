// Log-probabilities of one row: the model's own distribution, softmax of the raw logits, before any filter,
// penalty or temperature. Called outside the accelerator and without the GIL.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muser {

inline constexpr int kMaxTopLogprobs = 20; // OpenAI's limit

struct TokenLogprob {
    int32_t token;
    double logprob; // natural logarithm; -inf where the logit is
};

struct RowLogprobs {
    double chosen;                 // of the token that was asked about
    std::vector<TokenLogprob> top; // most likely first; of equals the lower id first
};

// logit - log(sum(exp(logits))), to 5e-7; blocks of 64 are summed in float32, their sums in float64. A row with +inf counts as 0 there and as -inf elsewhere.
// Throws Error{parameter} for a token outside the row or `top` outside 0..kMaxTopLogprobs; for a NaN (field "index")
// or a row that is all -inf, "logits".
RowLogprobs row_logprobs(std::span<const float> logits, int32_t token, int top);

} // namespace muser
