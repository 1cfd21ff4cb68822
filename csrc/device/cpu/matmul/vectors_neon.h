// NEON vectors with the dot-product extension. A tile has 16 lanes, four registers a vector. sdot takes
// signed bytes on both sides, so weights lose their zero point while they are unpacked. Include from
// *_neon.cpp and *_i8mm.cpp only.
#pragma once

#include <arm_neon.h>

#include "device/cpu/matmul/iq4_levels.h"
#include "device/cpu/matmul/vector_product.h"

namespace muser::cpu {
namespace {

struct Neon {
    static constexpr int lanes = 16;
    static constexpr int panel_blocks = 16;
    static constexpr int panel_rows = 4; // 16 sums in registers
    static constexpr int float_rows = 6; // 24 accumulators in registers
    struct W {
        uint32x4_t v[4];
    };
    struct F {
        float32x4_t v[4];
    };
    using C = W;

    // {f(0), f(1), f(2), f(3)}
    template <class Result, class Function> static MUSER_INLINE Result each(Function &&f) {
        return {{f(0), f(1), f(2), f(3)}};
    }

    static MUSER_INLINE W load(const std::byte *p) {
        return each<W>([&](int i) { return vld1q_u32(reinterpret_cast<const uint32_t *>(p) + 4 * i); });
    }
    static MUSER_INLINE C load_factor(const std::byte *p) { return load(p); }
    static MUSER_INLINE void store(std::byte *p, W x) {
        for (int i = 0; i < 4; ++i)
            vst1q_u32(reinterpret_cast<uint32_t *>(p) + 4 * i, x.v[i]);
    }
    static MUSER_INLINE W splat(uint32_t x) {
        return each<W>([&](int) { return vdupq_n_u32(x); });
    }
    static MUSER_INLINE W bit_and(W x, W y) {
        return each<W>([&](int i) { return vandq_u32(x.v[i], y.v[i]); });
    }
    static MUSER_INLINE W bit_or(W x, W y) {
        return each<W>([&](int i) { return vorrq_u32(x.v[i], y.v[i]); });
    }
    static MUSER_INLINE W shift_left(W x, int n) {
        return each<W>([&](int i) { return vshlq_u32(x.v[i], vdupq_n_s32(n)); });
    }
    template <int n> static MUSER_INLINE W shift_right(W x) {
        return each<W>([&](int i) { return vshrq_n_u32(x.v[i], n); });
    }
    static MUSER_INLINE W top_byte(W x) {
        return each<W>(
            [&](int i) { return vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(x.v[i]), 24)); });
    }
    static MUSER_INLINE W signed_bytes(W x) { return x; }
    static MUSER_INLINE W less_128(W x) {
        return each<W>([&](int i) { return veorq_u32(x.v[i], vdupq_n_u32(0x80808080u)); });
    }
    template <int zero> static MUSER_INLINE W without_zero_point(W x) {
        const uint8x16_t z = vdupq_n_u8(zero);
        return each<W>(
            [&](int i) { return vreinterpretq_u32_u8(vsubq_u8(vreinterpretq_u8_u32(x.v[i]), z)); });
    }
    static MUSER_INLINE W iq4_levels(W index) {
        const int8x16_t table = vld1q_s8(kIq4Levels);
        return each<W>(
            [&](int i) { return vreinterpretq_u32_s8(vqtbl1q_s8(table, vreinterpretq_u8_u32(index.v[i]))); });
    }
    static MUSER_INLINE W load_u16(const std::byte *p) {
        return each<W>(
            [&](int i) { return vmovl_u16(vld1_u16(reinterpret_cast<const uint16_t *>(p) + 4 * i)); });
    }

    static MUSER_INLINE F load_f32(const float *p) {
        return each<F>([&](int i) { return vld1q_f32(p + 4 * i); });
    }
    static MUSER_INLINE F load_f16(const std::byte *p) {
        return each<F>(
            [&](int i) { return vcvt_f32_f16(vld1_f16(reinterpret_cast<const float16_t *>(p) + 4 * i)); });
    }
    static MUSER_INLINE F load_bf16(const std::byte *p) {
        const W x = shift_left(load_u16(p), 16);
        return each<F>([&](int i) { return vreinterpretq_f32_u32(x.v[i]); });
    }
    static MUSER_INLINE void store(float *p, F x) {
        for (int i = 0; i < 4; ++i)
            vst1q_f32(p + 4 * i, x.v[i]);
    }
    static MUSER_INLINE F broadcast(const void *p) {
        const float32x4_t x = vld1q_dup_f32(static_cast<const float *>(p));
        return each<F>([&](int) { return x; });
    }
    static MUSER_INLINE F to_float(W x) {
        return each<F>([&](int i) { return vcvtq_f32_s32(vreinterpretq_s32_u32(x.v[i])); });
    }
    static MUSER_INLINE F negate(F x) {
        return each<F>([&](int i) { return vnegq_f32(x.v[i]); });
    }
    static MUSER_INLINE F add(F x, F y) {
        return each<F>([&](int i) { return vaddq_f32(x.v[i], y.v[i]); });
    }
    static MUSER_INLINE F mul(F x, F y) {
        return each<F>([&](int i) { return vmulq_f32(x.v[i], y.v[i]); });
    }
    static MUSER_INLINE F fma(F x, F y, F z) {
        return each<F>([&](int i) { return vfmaq_f32(z.v[i], x.v[i], y.v[i]); });
    }

    // (c0 | c1 << 8) a lane, int8 each, to the factor of the first and of the second half.
    static MUSER_INLINE C low_factor(W cc) { return top_byte(shift_left(cc, 24)); }
    static MUSER_INLINE C high_factor(W cc) { return top_byte(shift_left(cc, 16)); }

    // Group i of 16 activation values.
    template <int i> static MUSER_INLINE W dot(W sum, W w, int8x16_t values) {
        return each<W>([&](int v) {
            const int32x4_t s =
                vdotq_laneq_s32(vreinterpretq_s32_u32(sum.v[v]), vreinterpretq_s8_u32(w.v[v]), values, i);
            return vreinterpretq_u32_s32(s);
        });
    }
    static MUSER_INLINE W multiply_add(W sum, W x, W y) {
        return each<W>([&](int i) { return vmlaq_u32(sum.v[i], x.v[i], y.v[i]); });
    }

    // out[r] = the exact integer of the block for row r: sum of q * a, or c0 * sum0 + c1 * sum1.
    template <class Source, int R>
    static MUSER_INLINE void block_sums(const Source &source, int b, const RowBlocks<R> &rows, F (&out)[R]) {
        constexpr Scaling scaling = Source::arithmetic.scaling;
        constexpr bool halves = scaling == Scaling::halves || scaling == Scaling::halves_min;
        W sum[R], total[R];
        static_for<2>([&](auto half) __attribute__((always_inline)) {
            int8x16_t values[R];
            for (int r = 0; r < R; ++r) {
                values[r] = vld1q_s8(reinterpret_cast<const int8_t *>(rows.quants(r)) + 16 * half);
                if (halves || half == 0)
                    sum[r] = splat(0);
            }
            static_for<4>([&](auto i) __attribute__((always_inline)) {
                const W w = source.template group<4 * half + i>(b);
                for (int r = 0; r < R; ++r)
                    sum[r] = dot<i>(sum[r], w, values[r]);
            });
            if constexpr (halves) {
                const C factor = source.template factor<half>(b);
                for (int r = 0; r < R; ++r)
                    total[r] = multiply_add(half == 0 ? splat(0) : total[r], sum[r], factor);
            }
        });
        for (int r = 0; r < R; ++r)
            out[r] = to_float(halves ? total[r] : sum[r]);
    }
};

} // namespace
} // namespace muser::cpu
