// The weight of a logit: floor(2^30 * exp(x)) for x <= 0, branch-free so that a loop over it vectorizes.
// Only multiplications and additions, each rounded on its own (no fused operations), so that every CPU
// gives the same integers. Relative error of the exponential: below 3e-7.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace muser {

inline constexpr int kWeightBits = 30;
inline constexpr float kWeightUnderflow = -21.0f; // 2^30 * exp(-21) < 1: from here down the weight is 0

inline float clamp_exponent(float x) { return x > kWeightUnderflow ? x : kWeightUnderflow; }

// 2^Bits * exp(x) for -87 <= x <= 0 in float32, without branches so that a loop over it vectorizes. Relative error below
// 3e-7.
template <int Bits> inline float scaled_exponential(float x) {
    // exp(x) = 2^n * exp(r), |r| <= ln(2) / 2. Adding 1.5 * 2^23 rounds to an integer; ln(2) is split so that
    // n times its first part is exact.
    constexpr float kRound = 12582912.0f;
    const float n = (x * 1.44269504f + kRound) - kRound;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float e = 1.0f / 5040;
    e = e * r + 1.0f / 720;
    e = e * r + 1.0f / 120;
    e = e * r + 1.0f / 24;
    e = e * r + 1.0f / 6;
    e = e * r + 0.5f;
    e = e * r + 1.0f;
    e = e * r + 1.0f;
    return e * std::bit_cast<float>((static_cast<int32_t>(n) + 127 + Bits) << 23);
}

// x in [kWeightUnderflow, 0].
inline uint32_t weight_of_clamped(float x) {
    return static_cast<uint32_t>(static_cast<int32_t>(scaled_exponential<kWeightBits>(x)));
}

inline uint32_t weight_of(float x) { return weight_of_clamped(clamp_exponent(x)); }

// Weights of (x[i] - best) * scale; count <= Block. The clamp has a loop of its own because compilers turn
// a clamp inside the other loop into a branch, and then do not vectorize it.
template <size_t Block>
uint64_t weigh_block(const float *x, size_t count, float best, float scale, uint32_t *weights) {
    float exponent[Block];
    for (size_t i = 0; i < count; ++i)
        exponent[i] = clamp_exponent((x[i] - best) * scale);
    for (size_t i = 0; i < count; ++i)
        weights[i] = weight_of_clamped(exponent[i]);
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i)
        sum += weights[i];
    return sum;
}

} // namespace muser
