// The exact integers of a block on vpdpbusd, which AVX-512 VNNI and AVX-VNNI have: it multiplies unsigned by signed bytes and
// adds four products to a 32-bit lane. The weights are the unsigned side, and the sums start from minus the zero point times
// the activations' sum.
#pragma once

#include "device/cpu/matmul/vector_product.h"

namespace muser::cpu {

// Minus the zero point times the sum of the activations, of the block or of one half.
template <class V, Arithmetic a, int R> MUSER_INLINE typename V::W first_sum(const RowBlocks<R> &rows, int r, int half) {
    if constexpr (a.is_signed)
        return V::splat_word(rows.zero128(r));
    else if constexpr (a.zero == 8)
        return V::splat_word(rows.zero8(r));
    else if constexpr (a.zero == 16)
        return V::shift_left(V::splat_word(rows.zero8(r)), 1);
    else if constexpr (a.zero == 32)
        return V::splat_word(rows.half_zero32(r) + 4 * half);
    else if constexpr (a.zero == 4)
        return V::template shift_right_signed<3>(V::splat_word(rows.half_zero32(r) + 4 * half));
    else
        return V::splat(0);
}

// out[r] = the exact integer of the block for row r: sum of q * a, or c0 * sum0 + c1 * sum1.
template <class V, class Source, int R>
MUSER_INLINE void dot_sums(const Source &source, int b, const RowBlocks<R> &rows, typename V::F (&out)[R]) {
    constexpr Arithmetic a = Source::arithmetic;
    constexpr bool halves = a.scaling == Scaling::halves || a.scaling == Scaling::halves_min;
    static_for<(halves ? 2 : 1)>([&](auto half) __attribute__((always_inline)) {
        typename V::W sum[R];
        for (int r = 0; r < R; ++r)
            sum[r] = first_sum<V, a>(rows, r, half);
        static_for<(halves ? 4 : 8)>([&](auto i) __attribute__((always_inline)) {
            constexpr int g = 4 * half + i;
            const auto w = source.template group<g>(b);
            for (int r = 0; r < R; ++r)
                sum[r] = V::dot(sum[r], w, rows.quants(r) + 4 * g);
        });
        if constexpr (halves) {
            const auto factor = source.template factor<half>(b);
            for (int r = 0; r < R; ++r)
                out[r] = half == 0 ? V::mul(factor, V::to_float(sum[r])) : V::fma(factor, V::to_float(sum[r]), out[r]);
        } else {
            for (int r = 0; r < R; ++r)
                out[r] = V::to_float(sum[r]);
        }
    });
}

} // namespace muser::cpu
