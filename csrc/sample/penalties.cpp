#include "sample/penalties.h"

#include <cmath>
#include <string>

#include "core/error.h"

namespace muser {

float finite_logit(double x) {
    constexpr double kMost = std::numeric_limits<float>::max();
    return static_cast<float>(std::clamp(x, -kMost, kMost));
}

void add_bias(Candidates &set, const SamplerParams &params) {
    for (const auto &[token, bias] : params.logit_bias) {
        if (static_cast<size_t>(token) >= set.vocab())
            throw parameter_error("logit_bias", "must be of token ids in 0.." + std::to_string(set.vocab() - 1), token);
        if (float *logit = set.find(token))
            *logit = std::isinf(bias) ? -kInfinity : finite_logit(double(*logit) + bias);
    }
    set.edited();
}

void penalize(Candidates &set, const SamplerParams &params, const std::unordered_map<int32_t, uint32_t> &counts) {
    set.settle();
    for (const auto &[token, count] : counts)
        if (float *logit = set.find(token)) {
            double x = double(*logit);
            x = x > 0 ? x / params.repetition_penalty : x * params.repetition_penalty;
            *logit = finite_logit(x - (double(count) * params.frequency_penalty + params.presence_penalty));
        }
    set.edited();
}

} // namespace muser
