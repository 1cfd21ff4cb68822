// The chain. One pass over the row finds the best logit of every block of 64; each later step visits only
// the blocks that can matter, so that a vocabulary of 262,144 costs about as much as reading it once.
#include "sample/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "core/error.h"
#include "sample/weights.h"

namespace muser {

namespace {

constexpr size_t kBlock = 64;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Error refused(const char *parameter, const char *rule, double value) {
    const std::string shown = std::to_string(value);
    return Error(ErrorCode::parameter, std::string(parameter) + " " + rule + ", not " + shown,
                 {{"parameter", parameter}, {"value", shown}});
}

void check(const SamplerParams &p) {
    if (!(p.temperature >= 0 && std::isfinite(p.temperature)))
        throw refused("temperature", "must be finite and at least 0", p.temperature);
    if (p.top_k < -1)
        throw parameter_error("top_k", "must be at least 1, or 0 or -1 for off", p.top_k);
    if (!(p.top_p > 0 && p.top_p <= 1))
        throw refused("top_p", "must be above 0 and at most 1", p.top_p);
    if (!(p.min_p >= 0 && p.min_p <= 1))
        throw refused("min_p", "must be in 0..1", p.min_p);
}

Error bad_logits(const std::string &what, const char *value, std::optional<int64_t> index = {}) {
    std::vector<Error::Field> fields{{"parameter", "logits"}, {"value", value}};
    if (index)
        fields.emplace_back("index", *index);
    return Error(ErrorCode::parameter, what, std::move(fields));
}

// Four floats and their comparisons: GCC and Clang turn them into vector instructions on every machine. Loops
// over plain arrays do not become any here, because a maximum of floats may not be reordered.
using Floats = float __attribute__((vector_size(16)));
using Masks = int32_t __attribute__((vector_size(16)));

Floats load(const float *x) {
    Floats f;
    std::memcpy(&f, x, sizeof f);
    return f;
}

Floats larger(Floats a, Floats b) { return a > b ? a : b; }

// The best of a block, or NaN if the block holds one.
float best_of_block(const float *x) {
    Floats best[4] = {load(x), load(x + 4), load(x + 8), load(x + 12)};
    Masks nan = (best[0] != best[0]) | (best[1] != best[1]) | (best[2] != best[2]) | (best[3] != best[3]);
    for (size_t i = 16; i < kBlock; i += 16)
        for (size_t k = 0; k < 4; ++k) {
            const Floats next = load(x + i + 4 * k);
            best[k] = larger(best[k], next);
            nan |= next != next;
        }
    if (nan[0] | nan[1] | nan[2] | nan[3])
        return std::numeric_limits<float>::quiet_NaN();
    const Floats four = larger(larger(best[0], best[1]), larger(best[2], best[3]));
    return std::max(std::max(four[0], four[1]), std::max(four[2], four[3]));
}

float best_of_tail(std::span<const float> x) {
    float best = -kInfinity;
    for (float value : x) {
        if (std::isnan(value))
            return value;
        best = std::max(best, value);
    }
    return best;
}

} // namespace

Sampler::Sampler(const SamplerParams &params) : params_((check(params), params)), distribution_(params.seed) {
    if (params.temperature > 0) // a temperature too small for a float behaves as the smallest that is not
        inverse_temperature_ =
            static_cast<float>(std::min(1.0 / params.temperature, double(std::numeric_limits<float>::max())));
}

std::span<const float> Sampler::without_suppressed(std::span<const float> logits) {
    unsuppressed_.assign(logits.begin(), logits.end());
    for (const int32_t token : suppressed_)
        if (static_cast<size_t>(token) < logits.size() && !std::isnan(logits[static_cast<size_t>(token)]))
            unsuppressed_[static_cast<size_t>(token)] = -kInfinity;
    return unsuppressed_;
}

int32_t Sampler::sample(std::span<const float> logits, AllowedTokens mask) {
    if (!suppressed_.empty())
        logits = without_suppressed(logits);
    const float best = summarize(logits);
    if (best == -kInfinity)
        throw bad_logits("every logit is -inf: there is no token to choose", "-inf");
    if (!mask)
        return choose(logits, best);
    if (mask->size() != (logits.size() + 31) / 32)
        throw parameter_error("mask", "must have " + std::to_string((logits.size() + 31) / 32) + " words of 32 tokens",
                              static_cast<int64_t>(mask->size()));
    masked_.resize(logits.size());
    for (size_t i = 0; i < logits.size(); ++i)
        masked_[i] = ((*mask)[i / 32] >> (i % 32) & 1) != 0 ? logits[i] : -kInfinity;
    const float best_allowed = summarize(masked_);
    if (best_allowed == -kInfinity)
        throw Error(ErrorCode::logits, "every token that the mask allows has a logit of -inf");
    return choose(masked_, best_allowed);
}

int32_t Sampler::choose(std::span<const float> logits, float best) {
    if (params_.temperature == 0)
        return first_maximum(logits, best);
    if (best == kInfinity)
        return certain(logits);
    const bool filtered = params_.top_k > 0 || params_.top_p < 1 || params_.min_p > 0;
    return filtered ? sample_filtered(logits, best) : sample_all(logits, best);
}

// Fills block_best_ and returns the best logit of the row.
float Sampler::summarize(std::span<const float> logits) {
    if (logits.empty())
        throw bad_logits("logits is empty", "[]");
    const size_t n_blocks = (logits.size() + kBlock - 1) / kBlock;
    block_best_.resize(n_blocks);
    float best = -kInfinity;
    for (size_t b = 0; b < n_blocks; ++b) {
        const auto block = logits.subspan(b * kBlock, std::min(kBlock, logits.size() - b * kBlock));
        const float x = block.size() == kBlock ? best_of_block(block.data()) : best_of_tail(block);
        if (std::isnan(x)) {
            const auto at = std::find_if(block.begin(), block.end(), [](float v) { return std::isnan(v); });
            const auto index = static_cast<int64_t>(b * kBlock) + (at - block.begin());
            throw bad_logits("logits[" + std::to_string(index) + "] is NaN", "nan", index);
        }
        block_best_[b] = x;
        best = std::max(best, x);
    }
    return best;
}

int32_t Sampler::first_maximum(std::span<const float> logits, float best) const {
    const auto block = std::find(block_best_.begin(), block_best_.end(), best) - block_best_.begin();
    const auto from = logits.begin() + block * static_cast<std::ptrdiff_t>(kBlock);
    return static_cast<int32_t>(std::find(from, logits.end(), best) - logits.begin());
}

// A row with +inf, as the row it stands for. Rare, so it may allocate.
int32_t Sampler::certain(std::span<const float> logits) {
    std::vector<float> row(logits.size());
    std::transform(logits.begin(), logits.end(), row.begin(),
                   [](float x) { return x == kInfinity ? 0.0f : -kInfinity; });
    return sample(row);
}

uint64_t Sampler::draw(uint64_t total) {
    __extension__ using Wide = unsigned __int128; // total has up to 51 bits
    return static_cast<uint64_t>((static_cast<Wide>(distribution_.next53()) * total) >> 53);
}

// Fills weights_ and block_weight_ and returns the total. A block too far below the best is left alone.
uint64_t Sampler::weigh_all(std::span<const float> logits, float best, float inverse_temperature) {
    weights_.resize(logits.size());
    block_weight_.resize(block_best_.size());
    uint64_t total = 0;
    for (size_t b = 0; b < block_best_.size(); ++b) {
        uint64_t sum = 0;
        if ((block_best_[b] - best) * inverse_temperature > kWeightUnderflow) {
            const size_t first = b * kBlock;
            const size_t count = std::min(kBlock, logits.size() - first);
            sum = weigh_block<kBlock>(logits.data() + first, count, best, inverse_temperature, weights_.data() + first);
        }
        block_weight_[b] = sum;
        total += sum;
    }
    return total;
}

int32_t Sampler::sample_all(std::span<const float> logits, float best) {
    uint64_t rest = draw(weigh_all(logits, best, inverse_temperature_));
    size_t b = 0;
    while (rest >= block_weight_[b])
        rest -= block_weight_[b++];
    size_t token = b * kBlock;
    while (rest >= weights_[token])
        rest -= weights_[token++];
    return static_cast<int32_t>(token);
}

int32_t Sampler::sample_filtered(std::span<const float> logits, float best) {
    const bool by_rank = params_.top_k > 0 && static_cast<size_t>(params_.top_k) < logits.size();
    const bool by_mass = params_.top_p < 1;
    const float min_p_bound =
        params_.min_p > 0 ? static_cast<float>(double(best) + std::log(params_.min_p)) : -kInfinity;

    // Bounds that hold at least what the filters keep; the filters then cut exactly.
    uint64_t total = 0;
    if (by_rank) {
        gather(logits, top_k_bound());
        keep_top_k();
        if (by_mass)
            total = weigh_candidates(best, 1.0f);
    } else if (by_mass) {
        total = weigh_all(logits, best, 1.0f);
        gather(logits, top_p_bound(best, total));
        weigh_candidates(best, 1.0f);
    } else {
        gather(logits, min_p_bound);
    }
    if (by_mass)
        keep_top_p(total);
    std::erase_if(candidates_, [&](const Candidate &c) { return c.logit < min_p_bound; });

    uint64_t rest = draw(weigh_candidates(best, inverse_temperature_));
    size_t i = 0;
    while (rest >= candidates_[i].weight)
        rest -= candidates_[i++].weight;
    return candidates_[i].token;
}

bool Sampler::better(const Candidate &a, const Candidate &b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Candidates: the tokens at or above the threshold, ascending by id; never one with -inf.
void Sampler::gather(std::span<const float> logits, float threshold) {
    threshold = std::max(threshold, std::numeric_limits<float>::lowest());
    candidates_.clear();
    for (size_t b = 0; b < block_best_.size(); ++b) {
        if (block_best_[b] < threshold)
            continue;
        const size_t end = std::min((b + 1) * kBlock, logits.size());
        for (size_t i = b * kBlock; i < end; ++i)
            if (logits[i] >= threshold)
                candidates_.push_back({logits[i], static_cast<int32_t>(i), 0});
    }
}

// The k-th best of the block maxima: k blocks hold a logit at or above it, so the k best tokens are too.
float Sampler::top_k_bound() {
    const auto k = static_cast<size_t>(params_.top_k);
    if (k > block_best_.size())
        return -kInfinity;
    block_ranking_ = block_best_;
    const auto kth = block_ranking_.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(block_ranking_.begin(), kth, block_ranking_.end(), std::greater<>());
    return *kth;
}

// Tokens lighter than (1 - top_p) * total / n weigh less than (1 - top_p) * total together, so the others
// hold the nucleus. The margin covers the rounding of log and exp.
float Sampler::top_p_bound(float best, uint64_t total) const {
    const double weight = (1 - params_.top_p) * static_cast<double>(total) / static_cast<double>(weights_.size());
    return static_cast<float>(double(best) + std::log(weight / (1 << kWeightBits)) - 0.01);
}

void Sampler::keep_top_k() {
    const auto k = static_cast<size_t>(params_.top_k);
    if (candidates_.size() <= k)
        return;
    ranking_ = candidates_;
    const auto kth = ranking_.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(ranking_.begin(), kth, ranking_.end(), better);
    keep_until(*kth);
}

// Finds the last token of the nucleus by halving: weigh the better half of what is left, and go into the
// half in which the running sum passes the target. Linear on average; nothing is sorted but the last few.
void Sampler::keep_top_p(uint64_t total) {
    const double target = params_.top_p * static_cast<double>(total);
    ranking_ = candidates_;
    auto first = ranking_.begin(), last = ranking_.end();
    uint64_t sum = 0;
    while (last - first > 32) {
        const auto middle = first + (last - first) / 2;
        std::nth_element(first, middle, last, better);
        uint64_t half = 0;
        for (auto c = first; c != middle; ++c)
            half += c->weight;
        if (static_cast<double>(sum + half) >= target) {
            last = middle;
        } else {
            sum += half;
            first = middle;
        }
    }
    std::sort(first, last, better);
    while (first + 1 != last && static_cast<double>(sum += first->weight) < target)
        ++first;
    keep_until(*first);
}

void Sampler::keep_until(const Candidate &last) {
    std::erase_if(candidates_, [&](const Candidate &c) { return better(last, c); });
}

uint64_t Sampler::weigh_candidates(float best, float inverse_temperature) {
    uint64_t total = 0;
    for (Candidate &c : candidates_) {
        c.weight = weight_of((c.logit - best) * inverse_temperature);
        total += c.weight;
    }
    return total;
}

} // namespace muser
