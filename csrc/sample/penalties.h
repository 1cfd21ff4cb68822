// Edits of single logits: logit_bias, and the penalties of tokens that occurred lately. Each in float64, then clamped
// to what float32 holds, so that no penalty forbids a token; a bias of -inf does.
//
//   logit_bias  logit + bias
//   penalties   for a token that occurs `count` times among the last penalty_last_n tokens, prompt included:
//               logit > 0 ? logit / repetition_penalty : logit * repetition_penalty,
//               then - (count * frequency_penalty + presence_penalty)
#pragma once

#include <cstdint>
#include <unordered_map>

#include "sample/candidates.h"
#include "sample/params.h"

namespace muser {

float finite_logit(double x); // clamped and rounded to float32

void add_bias(Candidates &set, const SamplerParams &params); // Error{parameter "logit_bias"} beyond the vocabulary
void penalize(Candidates &set, const SamplerParams &params, const std::unordered_map<int32_t, uint32_t> &counts);

} // namespace muser
