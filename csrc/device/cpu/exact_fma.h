// a * b + c with one rounding, for code that is compiled without FMA instructions: there std::fma is a call
// into the C library, and slow emulation on a processor that has no FMA. Plain double arithmetic gives the
// same bits: the product is exact in double, the sum is rounded to odd (which cannot hurt the second
// rounding, since double has more than twice float's digits and two), then rounded to float.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace muser::cpu {

#if defined(__FMA__) || defined(__aarch64__)

inline float exact_fma(float a, float b, float c) { return std::fma(a, b, c); }

#else

// Integer operations instead of branches and comparisons, so that loops over lanes become vector code.
inline float exact_fma(float a, float b, float c) {
    const double product = static_cast<double>(a) * static_cast<double>(b);
    const double addend = c;
    const double sum = product + addend;
    // What the rounding of the sum left out (two-sum); NaN where the sum is not finite.
    const double rounded = sum - product;
    const double rest = (product - (sum - rounded)) + (addend - rounded);

    const auto bits = std::bit_cast<uint64_t>(sum), rest_bits = std::bit_cast<uint64_t>(rest);
    const uint64_t magnitude = rest_bits << 1;
    const uint64_t inexact = (magnitude | (0 - magnitude)) >> 63;
    const uint64_t finite = ((bits << 1 >> 53) - 0x7ff) >> 63;
    const uint64_t to_odd =
        inexact & finite & ~bits & 1; // 1: even and inexact, one step away from the odd neighbour
    const uint64_t inward = to_odd & (bits ^ rest_bits) >> 63; // the exact sum is nearer to zero
    return static_cast<float>(std::bit_cast<double>(bits + to_odd - (inward << 1)));
}

#endif

} // namespace muser::cpu
