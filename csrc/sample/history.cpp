#include "sample/history.h"

#include <algorithm>
#include <limits>

namespace muser {

namespace {

size_t window(bool on, int32_t last_n) {
    if (!on)
        return 0;
    return last_n < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(last_n);
}

} // namespace

History::History(const SamplerParams &params)
    : penalty_window_(window(params.has_penalties(), params.penalty_last_n)),
      dry_window_(window(params.has_dry(), params.dry_penalty_last_n)), keep_(std::max(penalty_window_, dry_window_)) {}

std::span<const int32_t> History::last(size_t n) const {
    n = std::min(n, tokens_.size());
    return {tokens_.data() + tokens_.size() - n, n};
}

void History::push(int32_t token) {
    if (keep_ == 0)
        return;
    tokens_.push_back(token);
    if (penalty_window_ > 0) {
        ++counts_[token];
        if (tokens_.size() > penalty_window_) {
            const auto left = counts_.find(tokens_[tokens_.size() - 1 - penalty_window_]);
            if (--left->second == 0)
                counts_.erase(left);
        }
    }
    if (tokens_.size() / 2 > keep_) // rarely, so that it costs nothing on average
        tokens_.erase(tokens_.begin(), tokens_.end() - static_cast<std::ptrdiff_t>(keep_));
}

void History::restore(std::span<const int32_t> kept) {
    tokens_.clear();
    counts_.clear();
    for (int32_t token : kept)
        push(token);
}

} // namespace muser
