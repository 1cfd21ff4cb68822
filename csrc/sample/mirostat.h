// Mirostat 1 and 2 (Basu and others, 2021): choose the token, and steer the surprise of the chosen ones to tau.
// In the place of filters and draw; mu starts at 2 * tau. One number a token of the stream `mirostat`.
//
//   version 2  keeps weight >= total * 2^-mu, and the first in rank in any case
//   version 1  estimates Zipf's exponent s from the first 100 in rank (t = log((i + 2) / (i + 1)),
//              b = (logit_i - logit_i+1) * scale, s = sum(t * b) / sum(t * t)), and keeps the first k,
//              log k = (mu * log(2) + log((s - 1) / (1 - N^(1 - s)))) / s, N the vocabulary, k in 1..candidates;
//              where |s - 1| < 1e-9 the fraction is 1 / log N, and where s = 0 k is 1 or all by the numerator's sign
//   both       draw; then mu -= eta * (log2(total) - log2(weight of the chosen) - tau), total of what was kept
#pragma once

#include "sample/candidates.h"
#include "sample/params.h"
#include "sample/random_stream.h"

namespace muser {

int32_t choose_by_mirostat(Candidates &set, const SamplerParams &params, double &mu, RandomStream &stream);

} // namespace muser
