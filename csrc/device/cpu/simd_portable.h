// f32x16 in plain C++: the readable definition of every operation. The other levels must give these bits.
// Included once, by ops_portable.cpp, into an anonymous namespace: no level's code can leak into another.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace muser::cpu::portable {
namespace {

struct f32x16 {
    float lane[16];
};

template <class F> inline f32x16 each(F f) {
    f32x16 r;
    for (int i = 0; i < 16; ++i)
        r.lane[i] = f(i);
    return r;
}

inline f32x16 set1(float x) {
    return each([=](int) { return x; });
}
inline f32x16 load(const float *p) {
    f32x16 r;
    std::memcpy(r.lane, p, sizeof(r.lane));
    return r;
}
inline void store(float *p, f32x16 v) { std::memcpy(p, v.lane, sizeof(v.lane)); }

// IEEE half to float. Subnormal halves are exact floats; NaNs keep their payload and become quiet.
inline float half_bits_to_float(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;
    if (exponent == 0)
        return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(float(mantissa) * 0x1p-24f));
    if (exponent == 31)
        return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u));
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// Float to half, round to nearest even, overflow to infinity.
inline uint16_t float_to_half_bits(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) // 65520 and above
        return uint16_t(sign | 0x7c00u);
    if (magnitude < 0x38800000u) // below the smallest normal half: adding 0.5 leaves units of 2^-24 in the low bits
        return uint16_t(sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u));
    return uint16_t(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13));
}

inline f32x16 load(const uint16_t *p) {
    return each([=](int i) { return half_bits_to_float(p[i]); });
}
inline f32x16 load(const int8_t *p) {
    return each([=](int i) { return float(p[i]); });
}
inline void store(uint16_t *p, f32x16 v) {
    for (int i = 0; i < 16; ++i)
        p[i] = float_to_half_bits(v.lane[i]);
}

inline f32x16 operator+(f32x16 a, f32x16 b) {
    return each([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline f32x16 operator-(f32x16 a, f32x16 b) {
    return each([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline f32x16 operator*(f32x16 a, f32x16 b) {
    return each([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline f32x16 operator/(f32x16 a, f32x16 b) {
    return each([&](int i) { return a.lane[i] / b.lane[i]; });
}
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { // a * b + c, rounded once
    return each([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
// Where either operand is NaN (or both are zero) these give b, as the x86 instructions do.
inline f32x16 max(f32x16 a, f32x16 b) {
    return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline f32x16 min(f32x16 a, f32x16 b) {
    return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline f32x16 abs(f32x16 a) {
    return each([&](int i) { return std::bit_cast<float>(std::bit_cast<uint32_t>(a.lane[i]) & 0x7fffffffu); });
}
inline f32x16 copysign(f32x16 magnitude, f32x16 sign) {
    return each([&](int i) {
        return std::bit_cast<float>((std::bit_cast<uint32_t>(magnitude.lane[i]) & 0x7fffffffu) |
                                    (std::bit_cast<uint32_t>(sign.lane[i]) & 0x80000000u));
    });
}
inline f32x16 where_less(f32x16 a, f32x16 b, f32x16 yes, f32x16 no) { // NaN compares as not less
    return each([&](int i) { return a.lane[i] < b.lane[i] ? yes.lane[i] : no.lane[i]; });
}
// h = n + 1.5 * 2^23 with |n| < 127: the low bits of h are n, and this is 2^n.
inline f32x16 exp2_of_biased(f32x16 h) {
    return each([&](int i) { return std::bit_cast<float>((std::bit_cast<uint32_t>(h.lane[i]) + 127u) << 23); });
}

// The one combine tree: lanes 8 apart, then 4, 2, 1.
inline float sum(f32x16 v) {
    for (int step = 8; step > 0; step /= 2)
        for (int i = 0; i < step; ++i)
            v.lane[i] = v.lane[i] + v.lane[i + step];
    return v.lane[0];
}
inline float max_of(f32x16 v) {
    for (int step = 8; step > 0; step /= 2)
        for (int i = 0; i < step; ++i)
            v.lane[i] = v.lane[i] > v.lane[i + step] ? v.lane[i] : v.lane[i + step];
    return v.lane[0];
}

// Lane i becomes lane i ^ Step, for Step 1, 2, 4 or 8.
template <int Step> inline f32x16 swap_lanes(f32x16 v) {
    return each([&](int i) { return v.lane[i ^ Step]; });
}

// Lanes 2i and 2i + 1 become p[i].
inline f32x16 load_twice(const float *p) {
    return each([=](int i) { return p[i / 2]; });
}

// The attention kernels block over single registers (attention_kernels.h). Here one register is all 16 lanes.
using Register = f32x16;
constexpr int kRegisterLanes = 16;
inline Register load_register(const float *p) { return load(p); }
inline Register load_register(const uint16_t *p) { return load(p); }
inline void store_register(float *p, Register v) { store(p, v); }
inline Register fill_register(float x) { return set1(x); }
inline Register multiply(Register a, Register b) { return a * b; }
inline Register multiply_add(Register a, Register b, Register c) { return fma(a, b, c); }

constexpr int kBlockQueries = 2;                             // most query vectors of one block
inline int block_of(int queries) { return queries < 2 ? queries : 2; } // of so many left, how many to take now
constexpr int block_vectors(int) { return 1; }               // most 16-wide vectors beside so many queries

} // namespace
} // namespace muser::cpu::portable
