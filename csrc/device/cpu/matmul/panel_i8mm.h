// Panels for smmla, which multiplies 8 values of two activation rows by 8 values of two outputs: 32 products, where
// sdot has 16. Its result is a square of two rows and two lanes,
//     {row 0 lane 0, row 0 lane 1, row 1 lane 0, row 1 lane 1},
// so these panels have an element for each row as well as for each lane. Include from *_i8mm.cpp only.
#pragma once

#include "device/cpu/matmul/vectors_neon.h"

namespace muser::cpu {
namespace {

struct I8mm : Neon {
    static constexpr int panel_rows = 8;      // 4 chains of smmla, and their values in 16 registers
    static constexpr int squares = lanes / 2; // of two rows; square s has lanes 2s and 2s + 1
};

} // namespace

template <Arithmetic a> struct alignas(64) PanelBlock<I8mm, a> {
    using Scales = BlockScales<I8mm, a.scaling>;
    static constexpr bool has_factors = a.scaling == Scaling::halves || a.scaling == Scaling::halves_min;
    static constexpr int n_scales = sizeof(Scales) / sizeof(I8mm::F);
    uint32_t words[I8mm::squares][4][4]; // values 8i .. 8i + 7 of the first lane, then of the second
    uint32_t scale_words[n_scales][I8mm::squares][4];
    uint32_t factor_words[has_factors ? 2 : 1][I8mm::squares][4];

    // From block b of a PackedSource's unit.
    template <class Source> MUSER_INLINE void unpack(const Source &source, int b) {
        static_for<4>([&](auto i) {
            const I8mm::W even = source.template group<2 * i>(b), odd = source.template group<2 * i + 1>(b);
            for (int v = 0; v < 4; ++v) {
                vst1q_u32(words[2 * v][i], vzip1q_u32(even.v[v], odd.v[v]));
                vst1q_u32(words[2 * v + 1][i], vzip2q_u32(even.v[v], odd.v[v]));
            }
        });
        const Scales from = source.scales(b);
        for_both_rows(scale_words[0], from.d);
        if constexpr (a.scaling == Scaling::scale_min)
            for_both_rows(scale_words[1], from.m);
        if constexpr (a.scaling == Scaling::halves_min) {
            for_both_rows(scale_words[1], from.m0);
            for_both_rows(scale_words[2], from.m1);
        }
        if constexpr (has_factors)
            static_for<2>([&](auto half) { for_both_rows(factor_words[half], source.template factor<half>(b)); });
    }

    MUSER_INLINE int8x16_t values(int square, int i) const { return vreinterpretq_s8_u32(vld1q_u32(words[square][i])); }
    MUSER_INLINE int32x4_t factor(int square, int half) const {
        return vreinterpretq_s32_u32(vld1q_u32(factor_words[half][square]));
    }
    MUSER_INLINE float32x4_t scale(int square, int index) const { // d, then what there is of m, m0 and m1
        return vreinterpretq_f32_u32(vld1q_u32(scale_words[index][square]));
    }

  private:
    static MUSER_INLINE void for_both_rows(uint32_t (*to)[4], I8mm::F x) {
        for_both_rows(to, I8mm::each<I8mm::W>([&](int i) { return vreinterpretq_u32_f32(x.v[i]); }));
    }
    static MUSER_INLINE void for_both_rows(uint32_t (*to)[4], I8mm::W x) {
        for (int v = 0; v < 4; ++v) {
            const uint64x2_t lanes = vreinterpretq_u64_u32(x.v[v]);
            vst1q_u32(to[2 * v], vreinterpretq_u32_u64(vzip1q_u64(lanes, lanes)));
            vst1q_u32(to[2 * v + 1], vreinterpretq_u32_u64(vzip2q_u64(lanes, lanes)));
        }
    }
};

} // namespace muser::cpu
