// f32x16 as four 128-bit registers (AArch64). Included once, by ops_neon.cpp.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace muser::cpu::neon {
namespace {

struct f32x16 {
    float32x4_t q[4];
};

template <class F> inline f32x16 each(F f) { return {{f(0), f(1), f(2), f(3)}}; }

inline f32x16 set1(float x) {
    const float32x4_t v = vdupq_n_f32(x);
    return {{v, v, v, v}};
}
inline f32x16 load(const float *p) {
    return each([=](int i) { return vld1q_f32(p + 4 * i); });
}
inline void store(float *p, const f32x16 &v) {
    for (int i = 0; i < 4; ++i)
        vst1q_f32(p + 4 * i, v.q[i]);
}
inline f32x16 load(const uint16_t *p) {
    return each([=](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
}
inline f32x16 load(const int8_t *p) {
    const int8x16_t all = vld1q_s8(p);
    const int16x8_t halves[2] = {vmovl_s8(vget_low_s8(all)), vmovl_s8(vget_high_s8(all))};
    return each([&](int i) {
        const int16x8_t half = halves[i / 2];
        return vcvtq_f32_s32(vmovl_s16(i % 2 ? vget_high_s16(half) : vget_low_s16(half)));
    });
}
inline void store(uint16_t *p, const f32x16 &v) {
    for (int i = 0; i < 4; ++i)
        vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(v.q[i])));
}

inline f32x16 operator+(const f32x16 &a, const f32x16 &b) {
    return each([&](int i) { return vaddq_f32(a.q[i], b.q[i]); });
}
inline f32x16 operator-(const f32x16 &a, const f32x16 &b) {
    return each([&](int i) { return vsubq_f32(a.q[i], b.q[i]); });
}
inline f32x16 operator*(const f32x16 &a, const f32x16 &b) {
    return each([&](int i) { return vmulq_f32(a.q[i], b.q[i]); });
}
inline f32x16 operator/(const f32x16 &a, const f32x16 &b) {
    return each([&](int i) { return vdivq_f32(a.q[i], b.q[i]); });
}
inline f32x16 fma(const f32x16 &a, const f32x16 &b, const f32x16 &c) {
    return each([&](int i) { return vfmaq_f32(c.q[i], a.q[i], b.q[i]); });
}
// Not vmaxq/vminq: those return NaN where the x86 instructions return b.
inline float32x4_t max(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline f32x16 max(const f32x16 &a, const f32x16 &b) {
    return each([&](int i) { return max(a.q[i], b.q[i]); });
}
inline f32x16 min(const f32x16 &a, const f32x16 &b) {
    return each([&](int i) { return vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]); });
}
inline f32x16 abs(const f32x16 &a) {
    return each([&](int i) { return vabsq_f32(a.q[i]); });
}
inline f32x16 copysign(const f32x16 &magnitude, const f32x16 &sign) {
    return each([&](int i) { return vbslq_f32(vdupq_n_u32(0x80000000u), sign.q[i], magnitude.q[i]); });
}
inline f32x16 where_less(const f32x16 &a, const f32x16 &b, const f32x16 &yes, const f32x16 &no) {
    return each([&](int i) { return vbslq_f32(vcltq_f32(a.q[i], b.q[i]), yes.q[i], no.q[i]); });
}
inline f32x16 exp2_of_biased(const f32x16 &h) {
    return each([&](int i) {
        return vreinterpretq_f32_u32(vshlq_n_u32(vaddq_u32(vreinterpretq_u32_f32(h.q[i]), vdupq_n_u32(127)), 23));
    });
}

inline float sum(const f32x16 &v) {
    const float32x4_t four = vaddq_f32(vaddq_f32(v.q[0], v.q[2]), vaddq_f32(v.q[1], v.q[3]));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float max_of(const f32x16 &v) {
    const float32x4_t four = max(max(v.q[0], v.q[2]), max(v.q[1], v.q[3]));
    const float a = vgetq_lane_f32(four, 0), b = vgetq_lane_f32(four, 1);
    const float c = vgetq_lane_f32(four, 2), d = vgetq_lane_f32(four, 3);
    const float even = a > c ? a : c, odd = b > d ? b : d;
    return even > odd ? even : odd;
}

// Lane i becomes lane i ^ Step.
template <int Step> inline f32x16 swap_lanes(const f32x16 &v) {
    return each([&](int i) {
        if constexpr (Step == 1)
            return vrev64q_f32(v.q[i]);
        else if constexpr (Step == 2)
            return vextq_f32(v.q[i], v.q[i], 2);
        else
            return v.q[i ^ Step / 4];
    });
}

// Lanes 2i and 2i + 1 become p[i].
inline f32x16 load_twice(const float *p) {
    return each([=](int i) {
        const float32x4_t four = vld1q_f32(p + i / 2 * 4);
        return i % 2 ? vzip2q_f32(four, four) : vzip1q_f32(four, four);
    });
}

using Register = float32x4_t;
constexpr int kRegisterLanes = 4;
inline Register load_register(const float *p) { return vld1q_f32(p); }
inline Register load_register(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
inline void store_register(float *p, Register v) { vst1q_f32(p, v); }
inline Register fill_register(float x) { return vdupq_n_f32(x); }
inline Register multiply(Register a, Register b) { return vmulq_f32(a, b); }
inline Register multiply_add(Register a, Register b, Register c) { return vfmaq_f32(c, a, b); }

// Twenty-four accumulators (3 x 2 vectors of four registers, ...) leave eight of the thirty-two for operands.
constexpr int kBlockQueries = 4; // blocks of three, or a last one of four
inline int block_of(int queries) { return queries == 4 ? 4 : queries < 3 ? queries : 3; }
constexpr int block_vectors(int queries) { return 6 / queries; }

} // namespace
} // namespace muser::cpu::neon
