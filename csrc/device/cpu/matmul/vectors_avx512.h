// AVX-512 vectors with VNNI. A tile has 32 lanes, two registers a vector: its halves share every broadcast
// of an activation. vpdpbusd multiplies unsigned by signed bytes and adds four products to a 32-bit lane; the
// weights are the unsigned side, and the sums start from minus the zero point times the activations' sum.
// Include from *_avx512.cpp only.
#pragma once

#include <immintrin.h>

#include "device/cpu/matmul/iq4_levels.h"
#include "device/cpu/matmul/vector_product.h"

namespace muser::cpu {
namespace {

struct Avx512 {
    static constexpr int lanes = 32;
    static constexpr int panel_blocks = 8; // 10 KiB and more: a panel and the rows on it share 32 KiB
    static constexpr int panel_rows = 6;   // 12 chains of vpdpbusd, two of which a core takes up every cycle and ends five cycles later
    static constexpr int float_rows = 12;  // 24 accumulators in registers
    struct W {
        __m512i a, b;
    };
    struct F {
        __m512 a, b;
    };
    using C = F; // a half's factor; products with it stay below 2^24, so float32 is exact

    static MUSER_INLINE W load(const std::byte *p) {
        return {_mm512_loadu_si512(p), _mm512_loadu_si512(p + 64)};
    }
    static MUSER_INLINE C load_factor(const std::byte *p) {
        return load_f32(reinterpret_cast<const float *>(p));
    }
    static MUSER_INLINE void store(std::byte *p, W x) {
        _mm512_storeu_si512(p, x.a);
        _mm512_storeu_si512(p + 64, x.b);
    }
    static MUSER_INLINE void store(std::byte *p, F x) { store(reinterpret_cast<float *>(p), x); }
    static MUSER_INLINE W both(__m512i x) { return {x, x}; }
    static MUSER_INLINE W splat(uint32_t x) { return both(_mm512_set1_epi32(static_cast<int>(x))); }
    static MUSER_INLINE W bit_and(W x, W y) {
        return {_mm512_and_si512(x.a, y.a), _mm512_and_si512(x.b, y.b)};
    }
    static MUSER_INLINE W bit_or(W x, W y) { return {_mm512_or_si512(x.a, y.a), _mm512_or_si512(x.b, y.b)}; }
    static MUSER_INLINE W shift_left(W x, int n) {
        const auto count = static_cast<unsigned>(n);
        return {_mm512_slli_epi32(x.a, count), _mm512_slli_epi32(x.b, count)};
    }
    template <int n> static MUSER_INLINE W shift_right(W x) {
        return {_mm512_srli_epi32(x.a, n), _mm512_srli_epi32(x.b, n)};
    }
    static MUSER_INLINE W top_byte(W x) { return {_mm512_srai_epi32(x.a, 24), _mm512_srai_epi32(x.b, 24)}; }
    template <int> static MUSER_INLINE W without_zero_point(W x) { return x; } // the sums see to it
    static MUSER_INLINE W signed_bytes(W x) {                                  // plus 128
        const __m512i bit = _mm512_set1_epi8(-128);
        return {_mm512_xor_si512(x.a, bit), _mm512_xor_si512(x.b, bit)};
    }
    static MUSER_INLINE W less_128(W x) { return x; } // the form that signed_bytes() gives
    static MUSER_INLINE W iq4_levels(W index) { // plus 128
        const __m128i levels = _mm_loadu_si128(reinterpret_cast<const __m128i *>(kIq4Levels));
        const __m512i table = _mm512_broadcast_i32x4(_mm_xor_si128(levels, _mm_set1_epi8(-128)));
        return {_mm512_shuffle_epi8(table, index.a), _mm512_shuffle_epi8(table, index.b)};
    }
    static MUSER_INLINE __m256i load_halves(const std::byte *p) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p));
    }
    static MUSER_INLINE W load_u16(const std::byte *p) {
        return {_mm512_cvtepu16_epi32(load_halves(p)), _mm512_cvtepu16_epi32(load_halves(p + 32))};
    }

    static MUSER_INLINE F load_f32(const float *p) { return {_mm512_loadu_ps(p), _mm512_loadu_ps(p + 16)}; }
    static MUSER_INLINE F load_f16(const std::byte *p) {
        return {_mm512_cvtph_ps(load_halves(p)), _mm512_cvtph_ps(load_halves(p + 32))};
    }
    static MUSER_INLINE F load_bf16(const std::byte *p) {
        const W x = shift_left(load_u16(p), 16);
        return {_mm512_castsi512_ps(x.a), _mm512_castsi512_ps(x.b)};
    }
    static MUSER_INLINE void store(float *p, F x) {
        _mm512_storeu_ps(p, x.a);
        _mm512_storeu_ps(p + 16, x.b);
    }
    static MUSER_INLINE F broadcast(const void *p) {
        float value;
        __builtin_memcpy(&value, p, sizeof value);
        const __m512 x = _mm512_set1_ps(value);
        return {x, x};
    }
    static MUSER_INLINE F to_float(W x) { return {_mm512_cvtepi32_ps(x.a), _mm512_cvtepi32_ps(x.b)}; }
    static MUSER_INLINE F negate(F x) {
        const __m512 sign = _mm512_set1_ps(-0.0f);
        return {_mm512_xor_ps(x.a, sign), _mm512_xor_ps(x.b, sign)};
    }
    static MUSER_INLINE F add(F x, F y) { return {_mm512_add_ps(x.a, y.a), _mm512_add_ps(x.b, y.b)}; }
    static MUSER_INLINE F mul(F x, F y) { return {_mm512_mul_ps(x.a, y.a), _mm512_mul_ps(x.b, y.b)}; }
    static MUSER_INLINE F fma(F x, F y, F z) {
        return {_mm512_fmadd_ps(x.a, y.a, z.a), _mm512_fmadd_ps(x.b, y.b, z.b)};
    }

    // (c0 | c1 << 8) a lane, int8 each, to the factor of the first and of the second half.
    static MUSER_INLINE C low_factor(W cc) { return to_float(top_byte(shift_left(cc, 24))); }
    static MUSER_INLINE C high_factor(W cc) { return to_float(top_byte(shift_left(cc, 16))); }

    static MUSER_INLINE __m512i broadcast_word(const std::byte *p) {
        int word;
        __builtin_memcpy(&word, p, sizeof word);
        return _mm512_set1_epi32(word);
    }
    static MUSER_INLINE W dot(W sum, W w, __m512i values) {
        return {_mm512_dpbusd_epi32(sum.a, w.a, values), _mm512_dpbusd_epi32(sum.b, w.b, values)};
    }

    // Minus the zero point times the sum of the activations, of the block or of one half.
    template <Arithmetic a, int R>
    static MUSER_INLINE __m512i start(const RowBlocks<R> &rows, int r, int half) {
        if constexpr (a.is_signed)
            return broadcast_word(rows.zero128(r));
        else if constexpr (a.zero == 8)
            return broadcast_word(rows.zero8(r));
        else if constexpr (a.zero == 16)
            return _mm512_slli_epi32(broadcast_word(rows.zero8(r)), 1);
        else if constexpr (a.zero == 32)
            return broadcast_word(rows.half_zero32(r) + 4 * half);
        else if constexpr (a.zero == 4)
            return _mm512_srai_epi32(broadcast_word(rows.half_zero32(r) + 4 * half), 3);
        else
            return _mm512_setzero_si512();
    }

    // out[r] = the exact integer of the block for row r: sum of q * a, or c0 * sum0 + c1 * sum1.
    template <class Source, int R>
    static MUSER_INLINE void block_sums(const Source &source, int b, const RowBlocks<R> &rows, F (&out)[R]) {
        constexpr Arithmetic a = Source::arithmetic;
        constexpr bool halves = a.scaling == Scaling::halves || a.scaling == Scaling::halves_min;
        static_for<(halves ? 2 : 1)>([&](auto half) __attribute__((always_inline)) {
            W sum[R];
            for (int r = 0; r < R; ++r)
                sum[r] = both(start<a>(rows, r, half));
            static_for<(halves ? 4 : 8)>([&](auto i) __attribute__((always_inline)) {
                constexpr int g = 4 * half + i;
                const W w = source.template group<g>(b);
                for (int r = 0; r < R; ++r)
                    sum[r] = dot(sum[r], w, broadcast_word(rows.quants(r) + 4 * g));
            });
            if constexpr (halves) {
                const C factor = source.template factor<half>(b);
                for (int r = 0; r < R; ++r)
                    out[r] =
                        half == 0 ? mul(factor, to_float(sum[r])) : fma(factor, to_float(sum[r]), out[r]);
            } else {
                for (int r = 0; r < R; ++r)
                    out[r] = to_float(sum[r]);
            }
        });
    }
};

} // namespace
} // namespace muser::cpu
