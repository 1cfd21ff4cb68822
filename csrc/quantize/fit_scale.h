// x ~ scale * q with q in -half..half-1: the best scale of one group, in weighted least squares. The scale has
// a sign: the integers reach one further below zero than above, and the largest weight may lie on either side.
//
// As in fit_line.h: a grid of first scales, the best scale for the integers of each, then refinement.
#pragma once

#include "quantize/lanes.h"

namespace muser::quantize {

inline constexpr int kScaleSteps = 16; // of each sign
inline constexpr float kScaleReach = 1.0f;
inline constexpr int kScaleRefinements = 4;

template <int N> float scale_error(const float *x, const float *weight, float scale, float half) {
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    LaneSum error;
    for (int i = 0; i < N; i += kLanes)
        for (int j = 0; j < kLanes; ++j) {
            const float off = scale * clamped(nearest(x[i + j] * inverse), -half, half - 1.0f) - x[i + j];
            error.lane[j] += weight[i + j] * off * off;
        }
    return error.total();
}

// The best scale for the integers that `inverse` gives, 0 where all are 0.
template <int N> float solved_scale(const float *x, const float *weight, float inverse, float half) {
    LaneSum wqq, wxq;
    for (int i = 0; i < N; i += kLanes)
        for (int j = 0; j < kLanes; ++j) {
            const float q = clamped(nearest(x[i + j] * inverse), -half, half - 1.0f);
            const float weighted = weight[i + j] * q;
            wqq.lane[j] += weighted * q;
            wxq.lane[j] += weighted * x[i + j];
        }
    const float squares = wqq.total();
    return squares > 0.0f ? wxq.total() / squares : 0.0f;
}

template <int N> float fit_scale(const float *x, const float *weight, int half_range) {
    const float half = static_cast<float>(half_range);
    const float extreme = *std::max_element(x, x + N, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    if (extreme == 0.0f)
        return 0.0f;
    float best = extreme / -half;
    float best_error = scale_error<N>(x, weight, best, half);
    const auto consider = [&](float scale) {
        const float error = scale != 0.0f ? scale_error<N>(x, weight, scale, half) : best_error;
        if (!(error < best_error))
            return false;
        best = scale;
        best_error = error;
        return true;
    };
    for (int step = 0; step <= kScaleSteps && best_error > 0.0f; ++step) {
        const float levels = half + kScaleReach * (2.0f * static_cast<float>(step) / kScaleSteps - 1.0f);
        consider(solved_scale<N>(x, weight, -levels / extreme, half));
        consider(solved_scale<N>(x, weight, levels / extreme, half));
    }
    for (int i = 0; i < kScaleRefinements && best_error > 0.0f; ++i)
        if (!consider(solved_scale<N>(x, weight, 1.0f / best, half)))
            break;
    return best;
}

} // namespace muser::quantize
