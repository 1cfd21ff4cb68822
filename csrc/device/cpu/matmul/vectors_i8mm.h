// NEON vectors with the int8 matrix product: smmla multiplies 8 values of two activation rows by 8 values of two
// outputs, 32 products where sdot has 16. Panels only, whose groups lie in pairs so that the 8 values of an output are
// neighbours. Include from *_i8mm.cpp only.
#pragma once

#include "device/cpu/matmul/vectors_neon.h"

namespace muser::cpu {
namespace {

struct I8mm : Neon {
    // Two groups of a panel block: [lanes][8 values], two lanes a register.
    static MUSER_INLINE void store_groups(std::byte *p, W even, W odd) {
        for (int i = 0; i < 4; ++i) {
            auto *to = reinterpret_cast<uint32_t *>(p) + 8 * i;
            vst1q_u32(to, vzip1q_u32(even.v[i], odd.v[i]));
            vst1q_u32(to + 4, vzip2q_u32(even.v[i], odd.v[i]));
        }
    }

    // A block of two activation rows: values 8i .. 8i + 7 of the first, then of the second.
    struct RowPair {
        int8x16_t values[4];
    };
    static MUSER_INLINE RowPair load_rows(const std::byte *first, const std::byte *second) {
        RowPair pair;
        for (int i = 0; i < 2; ++i) {
            const int64x2_t x = vld1q_s64(reinterpret_cast<const int64_t *>(first) + 2 * i);
            const int64x2_t y = vld1q_s64(reinterpret_cast<const int64_t *>(second) + 2 * i);
            pair.values[2 * i] = vreinterpretq_s8_s64(vzip1q_s64(x, y));
            pair.values[2 * i + 1] = vreinterpretq_s8_s64(vzip2q_s64(x, y));
        }
        return pair;
    }

    // Neon's integers, four lanes at a time, so that the activations stay in registers. A last odd row is its own
    // partner.
    template <class Source, int R>
    static MUSER_INLINE void block_sums(const Source &source, int b, const RowBlocks<R> &rows, F (&out)[R]) {
        constexpr Scaling scaling = Source::arithmetic.scaling;
        constexpr bool halves = scaling == Scaling::halves || scaling == Scaling::halves_min;
        constexpr int pairs = (R + 1) / 2, parts = halves ? 2 : 1;
        RowPair in[pairs];
        for (int p = 0; p < pairs; ++p)
            in[p] = load_rows(rows.quants(2 * p), rows.quants(2 * p + 1 < R ? 2 * p + 1 : 2 * p));
        static_for<4>([&](auto quad) __attribute__((always_inline)) {
            int32x4_t total[2 * pairs];
            static_for<parts>([&](auto part) __attribute__((always_inline)) {
                int32x4_t low[pairs], high[pairs]; // {row 0 lane 0, row 0 lane 1, row 1 lane 0, row 1 lane 1}
                for (int p = 0; p < pairs; ++p)
                    low[p] = high[p] = vdupq_n_s32(0);
                static_for<4 / parts>([&](auto i) __attribute__((always_inline)) {
                    constexpr int octet = 4 / parts * part + i;
                    const W w = source.template group<2 * octet + quad / 2>(b); // half of the lanes
                    for (int p = 0; p < pairs; ++p) {
                        const int8x16_t values = in[p].values[octet];
                        low[p] = vmmlaq_s32(low[p], values, vreinterpretq_s8_u32(w.v[2 * (quad % 2)]));
                        high[p] = vmmlaq_s32(high[p], values, vreinterpretq_s8_u32(w.v[2 * (quad % 2) + 1]));
                    }
                });
                for (int r = 0; r < 2 * pairs; ++r) {
                    const int32x4_t sum = row_of(low[r / 2], high[r / 2], r % 2);
                    if constexpr (halves) {
                        const int32x4_t factor = vreinterpretq_s32_u32(source.template factor<part>(b).v[quad]);
                        total[r] = part == 0 ? vmulq_s32(sum, factor) : vmlaq_s32(total[r], sum, factor);
                    } else {
                        total[r] = sum;
                    }
                }
            });
            for (int r = 0; r < R; ++r)
                out[r].v[quad] = vcvtq_f32_s32(total[r]);
        });
    }

  private:
    // The four lanes of one row of a pair.
    static MUSER_INLINE int32x4_t row_of(int32x4_t low, int32x4_t high, int row) {
        const int64x2_t x = vreinterpretq_s64_s32(low), y = vreinterpretq_s64_s32(high);
        return vreinterpretq_s32_s64(row == 0 ? vzip1q_s64(x, y) : vzip2q_s64(x, y));
    }
};

} // namespace
} // namespace muser::cpu
