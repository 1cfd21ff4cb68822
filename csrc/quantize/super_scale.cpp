#include "quantize/super_scale.h"

namespace muser::quantize {

namespace {

constexpr int kGroup = SuperScale::kGroup, kGroups = SuperScale::kGroups;
constexpr int kRounds = 2;

// The neighbours of a group's integer, at most two steps away. Returns the error of the best.
float choose_neighbour(SuperScale &block, int group, const float *x, const float *weight, float half, int scale_half) {
    const int scale = block.scale[group];
    float best = scale_error<kGroup>(x, weight, block.scale_of(scale), half);
    for (int s = std::max(scale - 2, -scale_half); s <= std::min(scale + 2, scale_half - 1); ++s) {
        const float error = scale_error<kGroup>(x, weight, block.scale_of(s), half);
        if (error < best) {
            best = error;
            block.scale[group] = static_cast<int8_t>(s);
        }
    }
    return best;
}

void fill_integers(SuperScale &block, const float *x, float half) {
    for (int group = 0; group < kGroups; ++group) {
        const float scale = block.scale_of(block.scale[group]);
        const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
        for (int i = group * kGroup; i < group * kGroup + kGroup; ++i)
            block.q[i] = static_cast<int8_t>(clamped(nearest(x[i] * inverse), -half, half - 1.0f));
    }
}

void solve_unit(SuperScale &block, const float *x, const float *weight) {
    double squares = 0, products = 0;
    for (int i = 0; i < 256; ++i) {
        const double a = static_cast<double>(block.scale[i / kGroup]) * block.q[i];
        squares += weight[i] * a * a;
        products += weight[i] * a * x[i];
    }
    if (squares > 0)
        block.d = bounded_half(static_cast<float>(products / squares));
}

} // namespace

SuperScale fit_super_scale(const float *x, int half_range, int scale_half) {
    const float half = static_cast<float>(half_range), scales = static_cast<float>(scale_half);
    float weight[256], fitted[kGroups], extreme = 0.0f;
    for (int group = 0; group < kGroups; ++group) {
        importance<kGroup>(x + group * kGroup, weight + group * kGroup);
        fitted[group] = fit_scale<kGroup>(x + group * kGroup, weight + group * kGroup, half_range);
        if (std::fabs(fitted[group]) > std::fabs(extreme))
            extreme = fitted[group];
    }
    SuperScale best;
    float best_error = HUGE_VALF;
    const auto refine = [&](uint16_t d) {
        SuperScale block;
        block.d = d;
        const float unit = gguf::half_to_float(d);
        for (int group = 0; group < kGroups; ++group)
            block.scale[group] =
                static_cast<int8_t>(unit != 0.0f ? clamped(nearest(fitted[group] / unit), -scales, scales - 1.0f) : 0.0f);
        for (int round = 0; round <= kRounds && best_error > 0.0f; ++round) {
            float error = 0.0f;
            for (int group = 0; group < kGroups; ++group)
                error += choose_neighbour(block, group, x + group * kGroup, weight + group * kGroup, half, scale_half);
            fill_integers(block, x, half);
            if (error < best_error) {
                best = block;
                best_error = error;
            }
            solve_unit(block, x, weight);
        }
    };
    const float d = extreme / -scales;
    refine(bounded_half(d));
    if (reaching_half(d) != bounded_half(d))
        refine(reaching_half(d));
    return best;
}

} // namespace muser::quantize
