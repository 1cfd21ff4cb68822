#include "sample/adaptive.h"

#include <algorithm>
#include <cmath>

namespace muser {

AdaptiveState adaptive_start(const SamplerParams &params) {
    return {params.adaptive_target / (1 - params.adaptive_decay), 1 / (1 - params.adaptive_decay)};
}

int32_t choose_adaptively(Candidates &set, const SamplerParams &params, AdaptiveState &state, RandomStream &stream) {
    auto &list = set.list();
    const double total = double(set.weigh());
    const double aim = std::clamp(2 * params.adaptive_target - state.weighted_sum / state.total_weight, 0.0, 1.0);
    // The weight before is needed once more, for the chosen token only: it stays in a list of its own.
    auto &before = set.scratch();
    before = list;
    for (Candidate &c : list) {
        const double d = std::abs(double(c.weight) / total - aim) / 0.3;
        c.logit = static_cast<float>(5 - 10 * d * d / (1 + d));
    }
    set.edited_at_scale_1();
    const int32_t token = set.at(stream.below(set.weigh()));
    const auto chosen = std::find_if(before.begin(), before.end(), [&](const Candidate &c) { return c.token == token; });
    state.weighted_sum = double(chosen->weight) / total + params.adaptive_decay * state.weighted_sum;
    state.total_weight = 1 + params.adaptive_decay * state.total_weight;
    return token;
}

} // namespace muser
