// DRY, "don't repeat yourself" (p-e-w): makes a token less likely the longer the passage that it would repeat.
//
// Over the last dry_penalty_last_n tokens h, prompt included. Nothing if they are at most dry_allowed_length.
//   limit    the tokens after the last complete breaker in h (all, without one): no repetition reaches over it
//   repeat   for each k in 1 .. size - 1: n = how many of the last tokens of h equal those k places earlier (inside h),
//            at most the limit. If n >= dry_allowed_length, the token after the earlier place would go on repeating;
//            its length is the largest such n
//   penalty  logit - multiplier * base^(length - dry_allowed_length), the power by repeated multiplication from 1, all
//            in float64, penalty at most 3.4e38; none if the token alone is a breaker
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sample/candidates.h"
#include "sample/params.h"

namespace muser {

class Dry {
  public:
    explicit Dry(const SamplerParams &params);
    void apply(Candidates &set, std::span<const int32_t> history);

  private:
    size_t limit_of(std::span<const int32_t> history) const;
    void count_repeats(std::span<const int32_t> history, size_t limit);

    double multiplier_, base_;
    size_t allowed_;
    std::unordered_multimap<int32_t, std::vector<int32_t>> breakers_; // by last token: the whole sequence
    // Scratch.
    std::vector<uint32_t> matched_;                      // by k
    std::unordered_map<int32_t, size_t> longest_;
};

} // namespace muser
