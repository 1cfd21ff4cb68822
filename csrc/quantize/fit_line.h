// x ~ scale * q + min with q in 0..top: the best scale and min of one group, in weighted least squares.
//
// A grid of first scales around (largest - smallest) / top gives integers; for these integers the best scale and min
// are the solution of two linear equations. The best of the grid is then refined: integers for the new
// line, a line for the new integers, while the error falls.
#pragma once

#include "quantize/lanes.h"

namespace muser::quantize {

struct Line {
    float scale = 0.0f; // >= 0
    float min = 0.0f;
};

inline constexpr int kGridSteps = 20;     // each way together; in units of levels:
inline constexpr float kGridReach = 1.0f; // from top - 1 to top + 1
inline constexpr int kRefinements = 4;

template <int N> float line_error(const float *x, const float *weight, Line line, float top) {
    const float inverse = line.scale > 0.0f ? 1.0f / line.scale : 0.0f;
    LaneSum error;
    for (int i = 0; i < N; i += kLanes)
        for (int j = 0; j < kLanes; ++j) {
            const float q = clamped(nearest((x[i + j] - line.min) * inverse), 0.0f, top);
            const float off = line.scale * q + line.min - x[i + j];
            error.lane[j] += weight[i + j] * off * off;
        }
    return error.total();
}

// The best line for the integers that `inverse` and `low` give. A scale of 0 where there is none.
template <int N>
Line solved_line(const float *x, const float *weight, float inverse, float low, float top, bool min_is_negative) {
    LaneSum w, wq, wqq, wx, wxq;
    for (int i = 0; i < N; i += kLanes)
        for (int j = 0; j < kLanes; ++j) {
            const float value = x[i + j];
            const float q = clamped(nearest((value - low) * inverse), 0.0f, top);
            const float weighted = weight[i + j] * q;
            w.lane[j] += weight[i + j];
            wq.lane[j] += weighted;
            wqq.lane[j] += weighted * q;
            wx.lane[j] += weight[i + j] * value;
            wxq.lane[j] += weighted * value;
        }
    const double sw = w.total(), sq = wq.total(), sqq = wqq.total(), sx = wx.total(), sxq = wxq.total();
    const double determinant = sw * sqq - sq * sq;
    if (!(determinant > 0.0))
        return {};
    Line line{static_cast<float>((sw * sxq - sx * sq) / determinant), static_cast<float>((sqq * sx - sq * sxq) / determinant)};
    if (min_is_negative && line.min > 0.0f)
        line = {static_cast<float>(sxq / sqq), 0.0f};
    return line.scale > 0.0f ? line : Line{};
}

// min_is_negative: the format stores -min as an unsigned integer.
template <int N> Line fit_line(const float *x, const float *weight, int top_level, bool min_is_negative) {
    const auto [low_at, high_at] = std::minmax_element(x, x + N);
    const float low = min_is_negative ? std::min(*low_at, 0.0f) : *low_at;
    const float range = *high_at - low;
    if (!(range > 0.0f))
        return {0.0f, low};
    const float top = static_cast<float>(top_level);
    Line best{range / top, low};
    float best_error = line_error<N>(x, weight, best, top);
    const auto consider = [&](Line line) {
        const float error = line.scale > 0.0f ? line_error<N>(x, weight, line, top) : best_error;
        if (!(error < best_error))
            return false;
        best = line;
        best_error = error;
        return true;
    };
    for (int step = 0; step <= kGridSteps && best_error > 0.0f; ++step) {
        const float levels = top + kGridReach * (2.0f * static_cast<float>(step) / kGridSteps - 1.0f);
        consider(solved_line<N>(x, weight, levels / range, low, top, min_is_negative));
    }
    for (int i = 0; i < kRefinements && best_error > 0.0f; ++i)
        if (!consider(solved_line<N>(x, weight, 1.0f / best.scale, best.min, top, min_is_negative)))
            break;
    return best;
}

} // namespace muser::quantize
