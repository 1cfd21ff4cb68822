// A super-block of 256 values in groups of N, each x ~ (d * scale) * q - (dmin * min): scale and min are small
// integers of the group, d and dmin halves of the super-block.
//
// Each group gets its best line (fit_line.h); d and dmin make the largest scale and min the largest integers. Then,
// twice: each group tries the neighbours of its two integers, and d and dmin are solved for all that was chosen.
#pragma once

#include <cstdint>

#include "quantize/blocks.h"
#include "quantize/fit_line.h"

namespace muser::quantize {

template <int N> struct SuperLine {
    static constexpr int kGroups = 256 / N;
    uint16_t d = 0, dmin = 0; // halves
    uint8_t scale[kGroups] = {}, min[kGroups] = {};
    uint8_t q[256] = {};

    Line line_of(int scale_integer, int min_integer) const {
        return {gguf::half_to_float(d) * static_cast<float>(scale_integer),
                -(gguf::half_to_float(dmin) * static_cast<float>(min_integer))};
    }
    Line line(int group) const { return line_of(scale[group], min[group]); }
};

inline uint8_t stored(float value, float unit, int top) {
    return static_cast<uint8_t>(unit > 0.0f ? clamped(nearest(value / unit), 0.0f, static_cast<float>(top)) : 0.0f);
}

// The neighbours of a group's integers, at most one step away each. Returns the error of the best.
template <int N>
float choose_neighbour(SuperLine<N> &block, int group, const float *x, const float *weight, int top, int scale_top) {
    const int scale = block.scale[group], min = block.min[group];
    float best = line_error<N>(x, weight, block.line(group), static_cast<float>(top));
    for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, scale_top); ++s)
        for (int m = std::max(min - 1, 0); m <= std::min(min + 1, scale_top); ++m) {
            const float error = line_error<N>(x, weight, block.line_of(s, m), static_cast<float>(top));
            if (error < best) {
                best = error;
                block.scale[group] = static_cast<uint8_t>(s);
                block.min[group] = static_cast<uint8_t>(m);
            }
        }
    return best;
}

template <int N> void fill_integers(SuperLine<N> &block, const float *x, int top) {
    for (int group = 0; group < block.kGroups; ++group) {
        const Line line = block.line(group);
        const float inverse = line.scale > 0.0f ? 1.0f / line.scale : 0.0f;
        for (int i = group * N; i < group * N + N; ++i)
            block.q[i] = static_cast<uint8_t>(clamped(nearest((x[i] - line.min) * inverse), 0.0f, static_cast<float>(top)));
    }
}

// d and dmin in least squares for the integers of the block: x ~ d * (scale q) + dmin * (-min).
template <int N> void solve_units(SuperLine<N> &block, const float *x, const float *weight) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int group = 0; group < block.kGroups; ++group) {
        const double b = -static_cast<double>(block.min[group]);
        for (int i = group * N; i < group * N + N; ++i) {
            const double a = static_cast<double>(block.scale[group]) * block.q[i], w = weight[i];
            aa += w * a * a;
            ab += w * a * b;
            bb += w * b * b;
            ax += w * a * x[i];
            bx += w * b * x[i];
        }
    }
    const double determinant = aa * bb - ab * ab;
    double d = aa > 0 ? ax / aa : 0, dmin = 0;
    if (determinant > 1e-9 * aa * bb) {
        d = (ax * bb - bx * ab) / determinant;
        dmin = (bx * aa - ax * ab) / determinant;
    }
    if (d >= 0 && dmin >= 0) {
        block.d = bounded_half(static_cast<float>(d));
        block.dmin = bounded_half(static_cast<float>(dmin));
    }
}

template <int N> SuperLine<N> fit_super_line(const float *x, int top, int scale_top) {
    constexpr int kGroups = SuperLine<N>::kGroups;
    constexpr int kRounds = 2;
    float weight[256];
    Line lines[kGroups];
    float largest_scale = 0.0f, largest_min = 0.0f;
    for (int group = 0; group < kGroups; ++group) {
        importance<N>(x + group * N, weight + group * N);
        lines[group] = fit_line<N>(x + group * N, weight + group * N, top, true);
        largest_scale = std::max(largest_scale, lines[group].scale);
        largest_min = std::max(largest_min, -lines[group].min);
    }
    SuperLine<N> best;
    float best_error = HUGE_VALF;
    const auto refine = [&](uint16_t d, uint16_t dmin) {
        SuperLine<N> block;
        block.d = d;
        block.dmin = dmin;
        for (int group = 0; group < kGroups; ++group) {
            block.scale[group] = stored(lines[group].scale, gguf::half_to_float(d), scale_top);
            block.min[group] = stored(-lines[group].min, gguf::half_to_float(dmin), scale_top);
        }
        for (int round = 0; round <= kRounds && best_error > 0.0f; ++round) {
            float error = 0.0f;
            for (int group = 0; group < kGroups; ++group)
                error += choose_neighbour<N>(block, group, x + group * N, weight + group * N, top, scale_top);
            fill_integers(block, x, top);
            if (error < best_error) {
                best = block;
                best_error = error;
            }
            solve_units(block, x, weight);
        }
    };
    const float d = largest_scale / static_cast<float>(scale_top), dmin = largest_min / static_cast<float>(scale_top);
    refine(bounded_half(d), bounded_half(dmin));
    if (reaching_half(d) != bounded_half(d) || reaching_half(dmin) != bounded_half(dmin))
        refine(reaching_half(d), reaching_half(dmin));
    return best;
}

} // namespace muser::quantize
