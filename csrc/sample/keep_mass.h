// Keeps the shortest prefix of an order whose weights sum to a target: what top_p and typical_p have in common.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sample/candidates.h"

namespace muser {

// The order: key(candidate) >= 0 ascending, ties by rank. reached(sum) says whether a sum of weights is enough;
// it must hold for the sum of all. Linear: sums over 1/64 wide buckets of the key find the bucket in which the
// prefix ends, and halving finds the place inside it; nothing is sorted but the last few.
template <class Key, class Reached> void keep_mass(std::vector<Candidate> &list, std::vector<Candidate> &scratch, Key key, Reached reached) {
    constexpr size_t kBuckets = 64 * 21 + 1; // beyond 21 there is hardly any weight
    auto bucket_of = [&](const Candidate &c) {
        const double k = key(c) * 64;
        return k < double(kBuckets - 1) ? static_cast<size_t>(k) : kBuckets - 1;
    };
    auto before = [&](const Candidate &a, const Candidate &b) {
        const auto ka = key(a), kb = key(b);
        return ka < kb || (ka == kb && ranks_before(a, b));
    };

    std::array<uint64_t, kBuckets> sums{};
    for (const Candidate &c : list)
        sums[bucket_of(c)] += c.weight;
    uint64_t sum = 0;
    size_t last_bucket = 0;
    while (last_bucket + 1 < kBuckets && !reached(sum + sums[last_bucket]))
        sum += sums[last_bucket++];

    scratch.clear();
    std::copy_if(list.begin(), list.end(), std::back_inserter(scratch), [&](const Candidate &c) { return bucket_of(c) == last_bucket; });
    auto first = scratch.begin(), last = scratch.end();
    while (last - first > 32) {
        const auto middle = first + (last - first) / 2;
        std::nth_element(first, middle, last, before);
        uint64_t half = 0;
        for (auto c = first; c != middle; ++c)
            half += c->weight;
        if (reached(sum + half)) {
            last = middle;
        } else {
            sum += half;
            first = middle;
        }
    }
    std::sort(first, last, before);
    while (first + 1 != last && !reached(sum += first->weight))
        ++first;
    const Candidate end = *first;
    std::erase_if(list, [&](const Candidate &c) {
        const size_t b = bucket_of(c);
        return b > last_bucket || (b == last_bucket && before(end, c));
    });
}

} // namespace muser
