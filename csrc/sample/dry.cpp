#include "sample/dry.h"

#include <algorithm>

#include "sample/penalties.h"

namespace muser {

namespace {

constexpr double kMostPenalty = 3.4e38;

double capped_power(double base, size_t exponent, double factor) {
    double power = 1;
    while (exponent-- > 0 && power * factor < kMostPenalty && base > 1)
        power *= base;
    return std::min(power * factor, kMostPenalty);
}

} // namespace

Dry::Dry(const SamplerParams &params)
    : multiplier_(params.dry_multiplier), base_(params.dry_base), allowed_(static_cast<size_t>(params.dry_allowed_length)) {
    for (const auto &breaker : params.dry_breakers)
        breakers_.emplace(breaker.back(), breaker);
}

size_t Dry::limit_of(std::span<const int32_t> history) const {
    for (size_t after = 0; after < history.size(); ++after) { // tokens behind the place
        const auto before = history.first(history.size() - after);
        const auto [from, to] = breakers_.equal_range(before.back());
        for (auto b = from; b != to; ++b)
            if (b->second.size() <= before.size() && std::equal(b->second.rbegin(), b->second.rend(), before.rbegin()))
                return after;
    }
    return history.size();
}

// matched_[k] = n, for all k at once: the Z function of the reversed history, in linear time. Inside a match that
// was found already, the answer for k is that for its place in the match, unless it ends at the match's end.
void Dry::count_repeats(std::span<const int32_t> history, size_t limit) {
    const size_t size = history.size();
    auto back = [&](size_t i) { return history[size - 1 - i]; };
    matched_.assign(size, 0);
    size_t match_from = 0, match_to = 0; // back(i) == back(i - match_from) for i in [match_from, match_to)
    for (size_t k = 1; k < size; ++k) {
        size_t n = k < match_to ? std::min<size_t>(matched_[k - match_from], match_to - k) : 0;
        if (k + n >= match_to) {
            while (k + n < size && back(k + n) == back(n))
                ++n;
            match_from = k;
            match_to = k + n;
        }
        matched_[k] = static_cast<uint32_t>(n);
    }
    longest_.clear();
    for (size_t k = 1; k < size; ++k) {
        const size_t n = std::min<size_t>(matched_[k], limit);
        if (n >= allowed_) {
            size_t &longest = longest_[back(k - 1)];
            longest = std::max(longest, n);
        }
    }
}

void Dry::apply(Candidates &set, std::span<const int32_t> history) {
    if (history.size() <= allowed_)
        return;
    const size_t limit = limit_of(history);
    if (limit < allowed_)
        return;
    count_repeats(history, limit);
    set.settle();
    for (const auto &[token, length] : longest_) {
        const auto [from, to] = breakers_.equal_range(token);
        if (std::any_of(from, to, [](const auto &b) { return b.second.size() == 1; }))
            continue;
        if (float *logit = set.find(token))
            *logit = finite_logit(double(*logit) - capped_power(base_, length - allowed_, multiplier_));
    }
    set.edited();
}

} // namespace muser
