// AVX2 vectors and the integer arithmetic of a block on them. A tile has 16 lanes, two registers a vector:
// the tile's two halves share every broadcast of an activation, and stay one stream in memory.
// Include from *_avx2.cpp only.
#pragma once

#include <immintrin.h>

#include "device/cpu/matmul/iq4_levels.h"
#include "device/cpu/matmul/vector_product.h"

namespace muser::cpu {
namespace {

struct Avx2 {
    static constexpr int lanes = 16;
    static constexpr int panel_blocks = 16; // 10 KiB and more: a panel and the rows on it share 32 KiB
    static constexpr int panel_rows = 4;    // 8 sums in registers, 8 accumulators in first-level cache
    static constexpr int float_rows = 6;    // 12 accumulators in registers
    struct W {
        __m256i a, b;
    };
    struct F {
        __m256 a, b;
    };
    using C = W; // a half's factor as int16, twice a lane: both factors of vpmaddwd

    static MUSER_INLINE __m256i load8(const void *p) {
        return _mm256_loadu_si256(static_cast<const __m256i *>(p));
    }
    static MUSER_INLINE W load(const std::byte *p) { return {load8(p), load8(p + 32)}; }
    static MUSER_INLINE C load_factor(const std::byte *p) { return load(p); }
    static MUSER_INLINE void store(std::byte *p, W x) {
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), x.a);
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(p + 32), x.b);
    }
    static MUSER_INLINE W both(__m256i x) { return {x, x}; }
    static MUSER_INLINE W splat(uint32_t x) { return both(_mm256_set1_epi32(static_cast<int>(x))); }
    static MUSER_INLINE W bit_and(W x, W y) {
        return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
    }
    static MUSER_INLINE W bit_or(W x, W y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
    static MUSER_INLINE W shift_left(W x, int n) {
        return {_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)};
    }
    template <int n> static MUSER_INLINE W shift_right(W x) {
        return {_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)};
    }
    template <int n> static MUSER_INLINE W shift_right_signed(W x) {
        return {_mm256_srai_epi32(x.a, n), _mm256_srai_epi32(x.b, n)};
    }
    static MUSER_INLINE W top_byte(W x) { return shift_right_signed<24>(x); }
    template <int> static MUSER_INLINE W without_zero_point(W x) { return x; } // the sums see to it
    static MUSER_INLINE W signed_bytes(W x) { return x; }
    static MUSER_INLINE W less_128(W x) {
        const __m256i bit = _mm256_set1_epi8(-128);
        return {_mm256_xor_si256(x.a, bit), _mm256_xor_si256(x.b, bit)};
    }
    static MUSER_INLINE W iq4_levels(W index) {
        const __m256i table =
            _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i *>(kIq4Levels)));
        return {_mm256_shuffle_epi8(table, index.a), _mm256_shuffle_epi8(table, index.b)};
    }
    static MUSER_INLINE __m128i load_halves(const std::byte *p) {
        return _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
    }
    static MUSER_INLINE W load_u16(const std::byte *p) {
        return {_mm256_cvtepu16_epi32(load_halves(p)), _mm256_cvtepu16_epi32(load_halves(p + 16))};
    }

    static MUSER_INLINE F load_f32(const float *p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
    static MUSER_INLINE F load_f16(const std::byte *p) {
        return {_mm256_cvtph_ps(load_halves(p)), _mm256_cvtph_ps(load_halves(p + 16))};
    }
    static MUSER_INLINE F load_bf16(const std::byte *p) {
        const W x = shift_left(load_u16(p), 16);
        return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
    }
    static MUSER_INLINE void store(float *p, F x) {
        _mm256_storeu_ps(p, x.a);
        _mm256_storeu_ps(p + 8, x.b);
    }
    static MUSER_INLINE F broadcast(const void *p) {
        const __m256 x = _mm256_broadcast_ss(static_cast<const float *>(p));
        return {x, x};
    }
    static MUSER_INLINE F to_float(W x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
    static MUSER_INLINE F negate(F x) {
        const __m256 sign = _mm256_set1_ps(-0.0f);
        return {_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
    }
    static MUSER_INLINE F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
    static MUSER_INLINE F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
    static MUSER_INLINE F fma(F x, F y, F z) {
        return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
    }

    // (c0 | c1 << 8) a lane, int8 each, to the factor of the first and of the second half.
    static MUSER_INLINE C low_factor(W cc) { return twice(top_byte(shift_left(cc, 24))); }
    static MUSER_INLINE C high_factor(W cc) { return twice(top_byte(shift_left(cc, 16))); }
    static MUSER_INLINE C twice(W x) {
        const W up = shift_left(x, 16);
        return {_mm256_blend_epi16(x.a, up.a, 0xaa), _mm256_blend_epi16(x.b, up.b, 0xaa)};
    }

    static MUSER_INLINE __m256i broadcast_word(const std::byte *p) {
        int word;
        __builtin_memcpy(&word, p, sizeof word);
        return _mm256_set1_epi32(word);
    }
    // Sums of four (two neighbours) products of bytes of w, unsigned, with bytes of the activations.
    static MUSER_INLINE W products(W w, __m256i values) {
        return {_mm256_maddubs_epi16(w.a, values), _mm256_maddubs_epi16(w.b, values)};
    }
    static MUSER_INLINE W pair_sums(W x, W factors) {
        return {_mm256_madd_epi16(x.a, factors.a), _mm256_madd_epi16(x.b, factors.b)};
    }

    // Additions in the written order. The compiler would otherwise balance the sums of a block into trees,
    // which keeps every product alive and spills most of them.
    static MUSER_INLINE W add16(W x, W y) {
        x = {_mm256_add_epi16(x.a, y.a), _mm256_add_epi16(x.b, y.b)};
        __asm__("" : "+x"(x.a), "+x"(x.b));
        return x;
    }
    static MUSER_INLINE W add32(W x, W y) {
        x = {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
        __asm__("" : "+x"(x.a), "+x"(x.b));
        return x;
    }

    // out[r] = the exact integer of the block for row r: sum of q * a, or c0 * sum0 + c1 * sum1.
    template <class Source, int R>
    static MUSER_INLINE void block_sums(const Source &source, int b, const RowBlocks<R> &rows, F (&out)[R]) {
        constexpr Arithmetic a = Source::arithmetic;
        W t[R];
        if constexpr (a.is_signed)
            signed_sums(source, b, rows, t);
        else if constexpr (a.scaling == Scaling::halves || a.scaling == Scaling::halves_min)
            half_sums(source, b, rows, t);
        else
            unsigned_sums(source, b, rows, t);
        for (int r = 0; r < R; ++r)
            out[r] = to_float(t[r]);
    }

    // vpmaddubsw sums two products into 16 bits; as many groups as cannot overflow are added up there.
    template <class Source, int R>
    static MUSER_INLINE void unsigned_sums(const Source &source, int b, const RowBlocks<R> &rows, W (&t)[R]) {
        constexpr Arithmetic a = Source::arithmetic;
        constexpr int run = 32767 / (2 * 127 * a.max) >= 8 ? 8 : 4;
        const W ones = both(_mm256_set1_epi16(1));
        W sum[R];
        static_for<8>([&](auto g) __attribute__((always_inline)) {
            const W w = source.template group<g>(b);
            for (int r = 0; r < R; ++r) {
                const W product = products(w, broadcast_word(rows.quants(r) + 4 * g));
                sum[r] = g % run == 0 ? product : add16(sum[r], product);
                if (g % run == run - 1) {
                    const W wide = pair_sums(sum[r], ones);
                    t[r] = g < run ? wide : add32(t[r], wide);
                }
            }
        });
        if constexpr (a.zero != 0)
            for (int r = 0; r < R; ++r) {
                const __m256i zero8 = broadcast_word(rows.zero8(r));
                t[r] = add32(t[r], both(a.zero == 8 ? zero8 : _mm256_slli_epi32(zero8, 1)));
            }
    }

    // The zero point goes in first, so that the 16-bit sums are of small signed weights: they wrap on the
    // way, but |sum| <= 8 * 127 * 32 at the end of a half. vpmaddwd then multiplies by the half's factor.
    template <class Source, int R>
    static MUSER_INLINE void half_sums(const Source &source, int b, const RowBlocks<R> &rows, W (&t)[R]) {
        constexpr int zero = Source::arithmetic.zero;
        static_assert(zero == 0 || zero == 4 || zero == 32);
        static_for<2>([&](auto half) __attribute__((always_inline)) {
            W sum[R];
            if constexpr (zero != 0)
                for (int r = 0; r < R; ++r) {
                    const __m256i zero32 = broadcast_word(rows.pair_zero32(r) + 4 * half);
                    sum[r] = both(zero == 32 ? zero32 : _mm256_srai_epi16(zero32, 3));
                }
            static_for<4>([&](auto i) __attribute__((always_inline)) {
                constexpr int g = 4 * half + i;
                const W w = source.template group<g>(b);
                for (int r = 0; r < R; ++r) {
                    const W product = products(w, broadcast_word(rows.quants(r) + 4 * g));
                    sum[r] = i == 0 && zero == 0 ? product : add16(sum[r], product);
                }
            });
            const C factor = source.template factor<half>(b);
            for (int r = 0; r < R; ++r) {
                const W scaled = pair_sums(sum[r], factor);
                t[r] = half == 0 ? scaled : add32(t[r], scaled);
            }
        });
    }

    // Signed weights: |w| times a with w's sign. 2 * 128 * 127 fits 16 bits, but not a second pair.
    template <class Source, int R>
    static MUSER_INLINE void signed_sums(const Source &source, int b, const RowBlocks<R> &rows, W (&t)[R]) {
        const W ones = both(_mm256_set1_epi16(1));
        static_for<8>([&](auto g) __attribute__((always_inline)) {
            const W w = source.template group<g>(b);
            const W size{_mm256_abs_epi8(w.a), _mm256_abs_epi8(w.b)};
            for (int r = 0; r < R; ++r) {
                const __m256i values = broadcast_word(rows.quants(r) + 4 * g);
                const W product{_mm256_maddubs_epi16(size.a, _mm256_sign_epi8(values, w.a)),
                                _mm256_maddubs_epi16(size.b, _mm256_sign_epi8(values, w.b))};
                const W wide = pair_sums(product, ones);
                t[r] = g == 0 ? wide : add32(t[r], wide);
            }
        });
    }
};

} // namespace
} // namespace muser::cpu
