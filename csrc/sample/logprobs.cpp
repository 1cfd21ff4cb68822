#include "sample/logprobs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"

namespace muser {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// exp(x) for x <= 0, without branches so that a loop over it vectorizes. Relative error below 1e-10.
double exponential(double x) {
    x = x > -700 ? x : -700; // e^-700 adds nothing
    // exp(x) = 2^n * exp(r), |r| <= ln(2) / 2. Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
    const double rounded = x * 1.4426950408889634 + 6755399441055744.0;
    const double n = rounded - 6755399441055744.0;
    const double r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10;
    double e = 1.0 / 362880;
    e = e * r + 1.0 / 40320;
    e = e * r + 1.0 / 5040;
    e = e * r + 1.0 / 720;
    e = e * r + 1.0 / 120;
    e = e * r + 1.0 / 24;
    e = e * r + 1.0 / 6;
    e = e * r + 0.5;
    e = e * r + 1.0;
    e = e * r + 1.0;
    return std::bit_cast<double>(std::bit_cast<uint64_t>(e) + (std::bit_cast<uint64_t>(rounded) << 52));
}

// Lanes of partial sums, in one fixed order.
double sum_of_exponentials(std::span<const float> logits, double best) {
    constexpr size_t kLanes = 8;
    double sums[kLanes] = {};
    size_t i = 0;
    for (; i + kLanes <= logits.size(); i += kLanes)
        for (size_t lane = 0; lane < kLanes; ++lane)
            sums[lane] += exponential(logits[i + lane] - best);
    double sum = 0;
    for (; i < logits.size(); ++i)
        sum += exponential(logits[i] - best);
    for (const double lane : sums)
        sum += lane;
    return sum;
}

Error bad_row(std::string what, const char *value, std::vector<Error::Field> more = {}) {
    more.insert(more.begin(), {{"parameter", "logits"}, {"value", value}});
    return Error(ErrorCode::parameter, std::move(what), std::move(more));
}

float best_of(std::span<const float> logits) {
    float best = -std::numeric_limits<float>::infinity();
    for (size_t i = 0; i < logits.size(); ++i) {
        if (std::isnan(logits[i]))
            throw bad_row("logits[" + std::to_string(i) + "] is NaN", "nan", {{"index", static_cast<int64_t>(i)}});
        best = std::max(best, logits[i]);
    }
    if (best == -std::numeric_limits<float>::infinity())
        throw bad_row("logits hold no token: they are all -inf", "-inf");
    return best;
}

std::vector<TokenLogprob> largest(std::span<const float> logits, size_t count) {
    std::vector<TokenLogprob> top; // with logits in place of log-probabilities
    count = std::min(count, logits.size());
    if (count == 0)
        return top;
    for (size_t i = 0; i < logits.size(); ++i) {
        const double logit = logits[i];
        if (top.size() == count && logit <= top.back().logprob)
            continue;
        if (top.size() == count)
            top.pop_back();
        const auto place = std::ranges::find_if(top, [&](const TokenLogprob &other) { return other.logprob < logit; });
        top.insert(place, {static_cast<int32_t>(i), logit});
    }
    return top;
}

} // namespace

RowLogprobs row_logprobs(std::span<const float> logits, int32_t token, int top) {
    if (token < 0 || static_cast<size_t>(token) >= logits.size())
        throw parameter_error("token", "must be in 0.." + std::to_string(static_cast<int64_t>(logits.size()) - 1), token);
    if (top < 0 || top > kMaxTopLogprobs)
        throw parameter_error("top", "must be in 0.." + std::to_string(kMaxTopLogprobs), top);
    const double best = best_of(logits);
    double log_sum = 0;
    if (best == kInfinity)
        log_sum = std::log(static_cast<double>(std::ranges::count(logits, std::numeric_limits<float>::infinity())));
    else
        log_sum = best + std::log(sum_of_exponentials(logits, best));
    const auto logprob = [&](double logit) {
        if (best == kInfinity)
            return logit == kInfinity ? -log_sum : -kInfinity;
        return logit - log_sum;
    };
    RowLogprobs row{logprob(logits[static_cast<size_t>(token)]), largest(logits, static_cast<size_t>(top))};
    for (TokenLogprob &entry : row.top)
        entry.logprob = logprob(entry.logprob);
    return row;
}

} // namespace muser
