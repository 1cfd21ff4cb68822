// Block by block (block_best.h): the top list visits only blocks whose best can be in it.
#include "sample/logprobs.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "sample/block_best.h"
#include "sample/weights.h"

namespace muser {

namespace {

// One fixed tree.
float sum_of_exponentials(std::span<const float> block, float best) {
    float e[kBlock] = {};
    for (size_t i = 0; i < block.size(); ++i) { // a loop of its own: see weigh_block()
        const float x = block[i] - best;
        e[i] = x > -87 ? x : -87; // e^-87 adds nothing
    }
    for (size_t i = 0; i < block.size(); ++i)
        e[i] = scaled_exponential<0>(e[i]);
    for (size_t half = kBlock / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; ++i)
            e[i] += e[i + half];
    return e[0];
}

Error bad_row(std::string what, const char *value, std::vector<Error::Field> more = {}) {
    more.insert(more.begin(), {{"parameter", "logits"}, {"value", value}});
    return Error(ErrorCode::parameter, std::move(what), std::move(more));
}

struct Bests {
    std::vector<float> blocks;
    float all = -kInfinity;
};

Bests bests_of(std::span<const float> logits) {
    Bests bests;
    bests.blocks.resize((logits.size() + kBlock - 1) / kBlock);
    for (size_t b = 0; b < bests.blocks.size(); ++b) {
        const float best = bests.blocks[b] = best_of_block(block_of(logits, b));
        if (std::isnan(best)) {
            const size_t i = static_cast<size_t>(std::ranges::find_if(logits, [](float x) { return std::isnan(x); }) - logits.begin());
            throw bad_row("logits[" + std::to_string(i) + "] is NaN", "nan", {{"index", static_cast<int64_t>(i)}});
        }
        bests.all = std::max(bests.all, best);
    }
    if (bests.all == -kInfinity)
        throw bad_row("logits hold no token: they are all -inf", "-inf");
    return bests;
}

double log_of_sum(std::span<const float> logits, const Bests &bests) {
    constexpr float kNothing = 40; // a block of 64 tokens that much below the best adds less than 3e-16
    double sum = 0;
    for (size_t b = 0; b < bests.blocks.size(); ++b)
        if (bests.blocks[b] > bests.all - kNothing)
            sum += sum_of_exponentials(block_of(logits, b), bests.all);
    return bests.all + std::log(sum);
}

std::vector<TokenLogprob> largest(std::span<const float> logits, const Bests &bests, size_t count) {
    std::vector<TokenLogprob> top; // with logits in place of log-probabilities
    count = std::min(count, logits.size());
    for (size_t b = 0; count > 0 && b < bests.blocks.size(); ++b) {
        if (top.size() == count && bests.blocks[b] <= top.back().logprob)
            continue;
        const std::span<const float> block = block_of(logits, b);
        for (size_t i = 0; i < block.size(); ++i) {
            const double logit = block[i];
            if (top.size() == count && logit <= top.back().logprob)
                continue;
            if (top.size() == count)
                top.pop_back();
            const auto place = std::ranges::find_if(top, [&](const TokenLogprob &other) { return other.logprob < logit; });
            top.insert(place, {static_cast<int32_t>(b * kBlock + i), logit});
        }
    }
    return top;
}

} // namespace

RowLogprobs row_logprobs(std::span<const float> logits, int32_t token, int top) {
    if (token < 0 || static_cast<size_t>(token) >= logits.size())
        throw parameter_error("token", "must be in 0.." + std::to_string(static_cast<int64_t>(logits.size()) - 1), token);
    if (top < 0 || top > kMaxTopLogprobs)
        throw parameter_error("top", "must be in 0.." + std::to_string(kMaxTopLogprobs), top);
    const Bests bests = bests_of(logits);
    const bool certain = bests.all == kInfinity;
    const double log_sum = certain ? std::log(static_cast<double>(std::ranges::count(logits, kInfinity))) : log_of_sum(logits, bests);
    const auto logprob = [&](double logit) {
        if (certain)
            return logit == double{kInfinity} ? -log_sum : -double{kInfinity};
        return logit - log_sum;
    };
    RowLogprobs row{logprob(logits[static_cast<size_t>(token)]), largest(logits, bests, static_cast<size_t>(top))};
    for (TokenLogprob &entry : row.top)
        entry.logprob = logprob(entry.logprob);
    return row;
}

} // namespace muser
