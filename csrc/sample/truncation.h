// Filters that keep a part of the candidates by rank or weight. Each keeps at least one.
//
//   top_k        the first k in rank
//   top_p        the shortest prefix of the ranking whose weights sum to >= top_p * total
//   min_p        logit >= best + log(min_p) / scale, computed in float64 and rounded to float32
//   typical_p    a = (best - logit) * scale in float32, E = the mean of a under the weights; in the order of |a - E|
//                (ties by rank), the shortest prefix whose weights sum to > typical_p * total. That is the order of
//                |surprise - entropy|, because both contain log(total) once. E is exact to 2^-20 below:
//                sum(weight * floor(a * 2^20)) / (total * 2^20), the two integers rounded to float64
//   top_n_sigma  logit - best >= -(n * sigma) in float64, sigma the standard deviation of the candidates' logits:
//                with d = logit - best, sqrt(max(0, mean(d * d) - mean(d)^2)); sums in eight lanes (token mod 8,
//                ascending), added as ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))
#pragma once

#include "sample/candidates.h"

namespace muser {

void keep_top_k(Candidates &set, int32_t k);
void keep_top_p(Candidates &set, double top_p);
void keep_min_p(Candidates &set, double log_min_p); // the logarithm, so that it is taken once
void keep_typical(Candidates &set, double typical_p);
void keep_top_n_sigma(Candidates &set, double n);

// The mean distance from the best under the weights, for the entropy: log(total / 2^30) + this. After weigh().
double mean_distance(const Candidates &set, uint64_t total);

} // namespace muser
