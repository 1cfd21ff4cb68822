// Adaptive-p: chooses tokens near a target probability, and steers the average of the chosen ones to it. In the place
// of the draw, on what the filters left. One number a token of the stream `adaptive`.
//
//   p         weight / total
//   aim       2 * target - weighted_sum / total_weight, clamped to 0..1
//   logit     5 - 10 * d * d / (1 + d), d = |p - aim| / 0.3, in float64 and rounded to float32; then a draw at scale 1
//   history   weighted_sum = p of the chosen + decay * weighted_sum; total_weight = 1 + decay * total_weight.
//             They start at target / (1 - decay) and 1 / (1 - decay)
#pragma once

#include "sample/candidates.h"
#include "sample/params.h"
#include "sample/random_stream.h"

namespace muser {

struct AdaptiveState {
    double weighted_sum = 0;
    double total_weight = 0;
};

AdaptiveState adaptive_start(const SamplerParams &params);
int32_t choose_adaptively(Candidates &set, const SamplerParams &params, AdaptiveState &state, RandomStream &stream);

} // namespace muser
