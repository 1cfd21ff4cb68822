// Sums over a group of weights in eight lanes, which a compiler keeps in vector registers, and rounding that it
// can vectorize too. The order of a sum is fixed: the same input gives the same file on every machine.
#pragma once

#include <algorithm>
#include <cmath>

namespace muser::quantize {

inline constexpr int kLanes = 8;

struct LaneSum {
    float lane[kLanes] = {};

    float total() const {
        return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    }
};

// To the nearest integer, ties to even, for magnitudes below 2^22: adding 1.5 * 2^23 leaves no bits for a fraction.
inline float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

inline float clamped(float x, float lowest, float highest) { return std::min(std::max(x, lowest), highest); }

// How much an error at each value counts: large weights meet large activations more often, but none is free.
// Root mean square of the values plus the magnitude.
template <int N> void importance(const float *x, float *weight) {
    LaneSum squares;
    for (int i = 0; i < N; i += kLanes)
        for (int j = 0; j < kLanes; ++j)
            squares.lane[j] += x[i + j] * x[i + j];
    const float rms = std::sqrt(squares.total() / static_cast<float>(N));
    for (int i = 0; i < N; ++i)
        weight[i] = rms + std::fabs(x[i]);
}

} // namespace muser::quantize
