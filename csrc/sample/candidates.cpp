#include "sample/candidates.h"

#include <cmath>
#include <functional>

#include "sample/weights.h"

namespace muser {

namespace {

constexpr float kMost = std::numeric_limits<float>::max();

} // namespace

int64_t Candidates::load(std::span<const float> row) {
    row_ = row;
    owned_ = listed_ = weighed_ = false;
    scale_ = 1.0f;
    block_best_.resize((row.size() + kBlock - 1) / kBlock);
    for (size_t b = 0; b < block_best_.size(); ++b) {
        block_best_[b] = best_of_block(block_of(row, b));
        if (std::isnan(block_best_[b])) {
            const auto block = block_of(row, b);
            const auto at = std::find_if(block.begin(), block.end(), [](float x) { return std::isnan(x); });
            return static_cast<int64_t>(b * kBlock) + (at - block.begin());
        }
    }
    find_best();
    return -1;
}

void Candidates::find_best() {
    best_ = -kInfinity;
    if (listed_)
        for (const Candidate &c : list_)
            best_ = std::max(best_, c.logit);
    else
        for (float x : block_best_)
            best_ = std::max(best_, x);
}

int32_t Candidates::first_maximum() const {
    if (listed_)
        return std::find_if(list_.begin(), list_.end(), [&](const Candidate &c) { return c.logit == best_; })->token;
    const auto block = std::find(block_best_.begin(), block_best_.end(), best_) - block_best_.begin();
    const auto from = row_.begin() + block * static_cast<std::ptrdiff_t>(kBlock);
    return static_cast<int32_t>(std::find(from, row_.end(), best_) - row_.begin());
}

size_t Candidates::count() const {
    if (listed_)
        return list_.size();
    size_t n = 0;
    each([&](int32_t, float) { ++n; });
    return n;
}

void Candidates::own() {
    if (owned_)
        return;
    copy_.assign(row_.begin(), row_.end());
    row_ = copy_;
    owned_ = true;
}

float *Candidates::find(int32_t token) {
    if (listed_) {
        const auto at = std::lower_bound(list_.begin(), list_.end(), token, [](const Candidate &c, int32_t t) { return c.token < t; });
        return at != list_.end() && at->token == token ? &at->logit : nullptr;
    }
    const auto i = static_cast<size_t>(token);
    if (token < 0 || i >= row_.size() || row_[i] == -kInfinity)
        return nullptr;
    own();
    touched_.push_back(i / kBlock);
    return &copy_[i];
}

void Candidates::edited() {
    for (size_t b : touched_)
        block_best_[b] = best_of_block(block_of(row_, b));
    touched_.clear();
    weighed_ = false;
    if (listed_)
        std::erase_if(list_, [](const Candidate &c) { return c.logit == -kInfinity; });
    find_best();
}

void Candidates::scale_by(double factor) {
    // Between the smallest normal float32 and the largest: a difference of 0 stays 0, and an order stays an order.
    const double product = double(scale_) * factor;
    scale_ = static_cast<float>(std::clamp(product, double(std::numeric_limits<float>::min()), double(kMost)));
}

void Candidates::settle() {
    if (scale_ == 1.0f)
        return;
    auto scaled = [&](float x) { return x == -kInfinity ? x : std::clamp(x * scale_, -kMost, kMost); };
    if (listed_) {
        for (Candidate &c : list_)
            c.logit = scaled(c.logit);
    } else {
        own();
        for (float &x : copy_)
            x = scaled(x);
        for (float &x : block_best_)
            x = scaled(x);
    }
    best_ = scaled(best_);
    scale_ = 1.0f;
    weighed_ = false;
}

uint64_t Candidates::weigh() {
    uint64_t total = 0;
    if (weights_known()) {
        if (listed_)
            for (const Candidate &c : list_)
                total += c.weight;
        else
            for (uint64_t sum : block_weight_)
                total += sum;
        return total;
    }
    weighed_ = true;
    weighed_best_ = best_;
    weighed_scale_ = scale_;
    if (listed_) {
        for (Candidate &c : list_) {
            c.weight = muser::weight_of((c.logit - best_) * scale_);
            total += c.weight;
        }
        return total;
    }
    // A block too far below the best is left alone.
    weights_.resize(row_.size());
    block_weight_.resize(block_best_.size());
    for (size_t b = 0; b < block_best_.size(); ++b) {
        block_weight_[b] = 0;
        if ((block_best_[b] - best_) * scale_ > kWeightUnderflow) {
            const auto block = block_of(row_, b);
            block_weight_[b] = weigh_block<kBlock>(block.data(), block.size(), best_, scale_, weights_.data() + b * kBlock);
        }
        total += block_weight_[b];
    }
    return total;
}

int32_t Candidates::at(uint64_t rest) const {
    if (listed_) {
        size_t i = 0;
        while (rest >= list_[i].weight)
            rest -= list_[i++].weight;
        return list_[i].token;
    }
    size_t b = 0;
    while (rest >= block_weight_[b])
        rest -= block_weight_[b++];
    size_t token = b * kBlock;
    while (rest >= weights_[token])
        rest -= weights_[token++];
    return static_cast<int32_t>(token);
}

void Candidates::collect(float threshold, std::vector<Candidate> &into) const {
    into.clear();
    if (listed_) {
        std::copy_if(list_.begin(), list_.end(), std::back_inserter(into), [&](const Candidate &c) { return c.logit >= threshold; });
        return;
    }
    threshold = std::max(threshold, -kMost); // never one with -inf
    for (size_t b = 0; b < block_best_.size(); ++b) {
        if (block_best_[b] < threshold)
            continue;
        const bool known = weights_known() && block_weight_[b] > 0;
        const size_t end = std::min((b + 1) * kBlock, row_.size());
        for (size_t i = b * kBlock; i < end; ++i)
            if (row_[i] >= threshold)
                into.push_back({row_[i], static_cast<int32_t>(i), known ? weights_[i] : 0});
    }
}

std::vector<Candidate> &Candidates::list() {
    if (!listed_)
        keep_above(-kInfinity);
    return list_;
}

void Candidates::keep_above(float threshold) {
    if (listed_) {
        std::erase_if(list_, [&](const Candidate &c) { return c.logit < threshold; });
    } else {
        weighed_ = weights_known(); // then they come along
        collect(threshold, list_);
        listed_ = true;
    }
}

// A logit that at least the k best reach. k blocks hold one at or above the k-th best block maximum, so k tokens do.
float Candidates::bound_of_best(size_t k) {
    if (listed_ || k > block_best_.size())
        return -kInfinity;
    block_ranking_ = block_best_;
    const auto kth = block_ranking_.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(block_ranking_.begin(), kth, block_ranking_.end(), std::greater<>());
    return *kth;
}

void Candidates::keep_best(size_t k) {
    keep_above(bound_of_best(k));
    if (list_.size() <= k)
        return;
    ranking_ = list_;
    const auto kth = ranking_.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(ranking_.begin(), kth, ranking_.end(), ranks_before);
    keep_until(*kth);
}

void Candidates::keep_until(const Candidate &last) {
    const Candidate kept = last; // may be an element of the list
    std::erase_if(list_, [&](const Candidate &c) { return ranks_before(kept, c); });
}

std::vector<Candidate> &Candidates::best_ranked(size_t m) {
    collect(bound_of_best(m), ranking_);
    const auto end = ranking_.begin() + static_cast<std::ptrdiff_t>(std::min(m, ranking_.size()));
    std::partial_sort(ranking_.begin(), end, ranking_.end(), ranks_before);
    ranking_.erase(end, ranking_.end());
    return ranking_;
}

void Candidates::edited_at_scale_1() {
    scale_ = 1.0f;
    edited();
}

uint32_t Candidates::weight_of(int32_t token) const {
    if (!listed_)
        return weights_[static_cast<size_t>(token)];
    return std::lower_bound(list_.begin(), list_.end(), token, [](const Candidate &c, int32_t t) { return c.token < t; })->weight;
}

void Candidates::removed() { find_best(); }

} // namespace muser
