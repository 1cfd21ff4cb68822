// Keeps the shortest prefix of an order whose weights sum to a target: what top_p and typical_p have in common.
//
// The order: a key >= 0, ascending, ties by rank. `reached(sum)` says whether a sum of weights is enough; it must hold
// for the sum of all. Linear: sums over buckets of the key, 1/64 wide, find the bucket in which the prefix ends, and
// halving finds the place inside it; nothing is sorted but the last few.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sample/candidates.h"

namespace muser {

inline constexpr size_t kMassBuckets = 64 * 21 + 1; // beyond 21 there is hardly any weight

inline size_t mass_bucket(double key) { return key < 21 ? static_cast<size_t>(key * 64) : kMassBuckets - 1; }

struct MassPrefix {
    size_t bucket;   // in which it ends
    uint64_t before; // the sum of all buckets before
};

// visit(add) calls add(key, weight) for everything that weighs something.
template <class Visit, class Reached> MassPrefix find_mass(Visit visit, Reached reached) {
    std::array<uint64_t, kMassBuckets> sums{};
    visit([&](double key, uint32_t weight) { sums[mass_bucket(key)] += weight; });
    MassPrefix prefix{0, 0};
    while (prefix.bucket + 1 < kMassBuckets && !reached(prefix.before + sums[prefix.bucket]))
        prefix.before += sums[prefix.bucket++];
    return prefix;
}

// The list must hold all of the prefix, with weights.
template <class Key, class Reached>
void keep_mass(std::vector<Candidate> &list, std::vector<Candidate> &scratch, MassPrefix prefix, Key key, Reached reached) {
    auto before = [&](const Candidate &a, const Candidate &b) {
        const auto ka = key(a.logit), kb = key(b.logit);
        return ka < kb || (ka == kb && ranks_before(a, b));
    };
    scratch.clear();
    std::copy_if(list.begin(), list.end(), std::back_inserter(scratch),
                 [&](const Candidate &c) { return mass_bucket(key(c.logit)) == prefix.bucket; });
    uint64_t sum = prefix.before;
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
        const size_t b = mass_bucket(key(c.logit));
        return b > prefix.bucket || (b == prefix.bucket && before(end, c));
    });
}

} // namespace muser
