// Temperature, fixed or following the entropy of what the steps before it left.
//
//   fixed    scale *= 1 / T
//   dynamic  with dynatemp_range r > 0 and more than one candidate: H = log(total) - 30 log(2) + mean_distance (truncation.h),
//            T = low + (T + r - low) * pow(H / log(number of candidates) clamped to 0..1, exponent), low = max(0, T - r).
//            T = 0 leaves the first in rank
#pragma once

#include "sample/candidates.h"
#include "sample/params.h"

namespace muser {

void apply_temperature(Candidates &set, const SamplerParams &params);

} // namespace muser
