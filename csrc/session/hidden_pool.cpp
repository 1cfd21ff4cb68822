#include "session/hidden_pool.h"

#include <algorithm>
#include <cmath>

namespace muser {

HiddenPool::HiddenPool(Pooling pooling, std::span<const float> norm, float eps)
    : pooling_(pooling), norm_(norm), eps_(eps), sum_(norm.size()) {}

void HiddenPool::add(std::span<const float> residuals) {
    const size_t d = norm_.size(), rows = residuals.size() / d;
    for (size_t i = 0; i < rows; ++i, ++rows_) {
        if (pooling_ == Pooling::mean)
            add_row(residuals.subspan(i * d, d), false);
        else if (pooling_ == Pooling::last ? i + 1 == rows : rows_ == 0) // the last of this chunk, until another comes
            add_row(residuals.subspan(i * d, d), true);
    }
}

void HiddenPool::add_row(std::span<const float> residual, bool replace) {
    double squares = 0;
    for (const double x : residual)
        squares += x * x;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(residual.size()) + eps_);
    if (replace)
        std::ranges::fill(sum_, 0.0);
    for (size_t k = 0; k < residual.size(); ++k)
        sum_[k] += residual[k] * scale * norm_[k];
}

std::vector<float> HiddenPool::result() const {
    const double n = pooling_ == Pooling::mean ? static_cast<double>(rows_) : 1.0;
    std::vector<float> pooled(sum_.size());
    std::ranges::transform(sum_, pooled.begin(), [n](double x) { return static_cast<float>(x / n); });
    return pooled;
}

} // namespace muser
