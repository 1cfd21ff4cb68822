// AVX2 vectors, 8 lanes, and the integer arithmetic of a block on them. Include from *_avx2.cpp only.
#pragma once

#include <immintrin.h>

#include "device/cpu/matmul/iq4_levels.h"
#include "device/cpu/matmul/vector_product.h"

namespace muser::cpu {
namespace {

struct Avx2 {
    static constexpr Level level = Level::avx2;
    static constexpr int lanes = 8;
    static constexpr int panel_rows = 4; // activation rows of a register tile: 4 sums, 4 accumulators, temporaries
    template <int tiles> static constexpr int float_rows() { return tiles == 2 ? 6 : 4; }
    using W = __m256i;
    using F = __m256;
    using C = __m256i; // a half's factor as int16, twice a lane: both factors of vpmaddwd

    static MUSER_INLINE W load(const void *p) { return _mm256_loadu_si256(static_cast<const __m256i *>(p)); }
    static MUSER_INLINE W splat(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
    static MUSER_INLINE W bit_and(W a, W b) { return _mm256_and_si256(a, b); }
    static MUSER_INLINE W bit_or(W a, W b) { return _mm256_or_si256(a, b); }
    static MUSER_INLINE W shift_left(W a, int n) { return _mm256_slli_epi32(a, n); }
    template <int n> static MUSER_INLINE W shift_right(W a) { return _mm256_srli_epi32(a, n); }
    static MUSER_INLINE W sign_extend_byte(W a) { return _mm256_srai_epi32(a, 24); }
    static MUSER_INLINE W iq4_levels(W index) {
        const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i *>(kIq4Levels));
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index);
    }
    static MUSER_INLINE W load_u16(const void *p) {
        return _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i *>(p)));
    }

    static MUSER_INLINE F zero() { return _mm256_setzero_ps(); }
    static MUSER_INLINE F load_f32(const void *p) { return _mm256_loadu_ps(static_cast<const float *>(p)); }
    static MUSER_INLINE F load_f16(const void *p) {
        return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i *>(p)));
    }
    static MUSER_INLINE F load_bf16(const void *p) { return _mm256_castsi256_ps(_mm256_slli_epi32(load_u16(p), 16)); }
    static MUSER_INLINE void store(float *p, F a) { _mm256_storeu_ps(p, a); }
    static MUSER_INLINE F broadcast(const void *p) { return _mm256_broadcast_ss(static_cast<const float *>(p)); }
    static MUSER_INLINE F to_float(W a) { return _mm256_cvtepi32_ps(a); }
    static MUSER_INLINE F negate(F a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
    static MUSER_INLINE F add(F a, F b) { return _mm256_add_ps(a, b); }
    static MUSER_INLINE F mul(F a, F b) { return _mm256_mul_ps(a, b); }
    static MUSER_INLINE F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }

    // (c0 | c1 << 8) a lane, int8 each, to the factor of the first and of the second half.
    static MUSER_INLINE C low_factor(W cc) { return both_halves(_mm256_srai_epi32(_mm256_slli_epi32(cc, 24), 24)); }
    static MUSER_INLINE C high_factor(W cc) { return both_halves(_mm256_srai_epi32(_mm256_slli_epi32(cc, 16), 24)); }
    static MUSER_INLINE C both_halves(W a) { return _mm256_blend_epi16(a, _mm256_slli_epi32(a, 16), 0xaa); }

    static MUSER_INLINE W broadcast_word(const std::byte *p) {
        int word;
        __builtin_memcpy(&word, p, sizeof word);
        return _mm256_set1_epi32(word);
    }

    // t[r] = the exact integer of the block for row r: sum of q * a, or c0 * sum0 + c1 * sum1.
    template <class Source, int R>
    static MUSER_INLINE void integer_sums(const Source &source, int b, const RowBlocks<R> &rows, W (&t)[R]) {
        constexpr Arithmetic a = Source::arithmetic;
        if constexpr (a.is_signed)
            signed_sums(source, b, rows, t);
        else if constexpr (a.scaling == Scaling::halves || a.scaling == Scaling::halves_min)
            half_sums(source, b, rows, t);
        else
            unsigned_sums(source, b, rows, t);
    }

    // vpmaddubsw sums two products into 16 bits; as many groups as cannot overflow are added up there.
    template <class Source, int R>
    static MUSER_INLINE void unsigned_sums(const Source &source, int b, const RowBlocks<R> &rows, W (&t)[R]) {
        constexpr Arithmetic a = Source::arithmetic;
        constexpr int run = 32767 / (2 * 127 * a.max) >= 8 ? 8 : 4;
        const W ones = _mm256_set1_epi16(1);
        W sum[R];
        static_for<8>([&](auto g) __attribute__((always_inline)) {
            const W w = source.template group<g>(b);
            for (int r = 0; r < R; ++r) {
                const W product = _mm256_maddubs_epi16(w, broadcast_word(rows.quants(r) + 4 * g));
                sum[r] = g % run == 0 ? product : _mm256_add_epi16(sum[r], product);
                if (g % run == run - 1) {
                    const W wide = _mm256_madd_epi16(sum[r], ones);
                    t[r] = g < run ? wide : _mm256_add_epi32(t[r], wide);
                }
            }
        });
        if constexpr (a.zero != 0)
            for (int r = 0; r < R; ++r) {
                const W zero8 = broadcast_word(rows.zero8(r));
                t[r] = _mm256_add_epi32(t[r], a.zero == 8 ? zero8 : _mm256_slli_epi32(zero8, 1));
            }
    }

    // The zero point goes in first, so that the 16-bit sums are of small signed weights: they wrap on the
    // way, but |sum| <= 8 * 127 * 32 at the end of a half. vpmaddwd then multiplies by the half's factor.
    template <class Source, int R>
    static MUSER_INLINE void half_sums(const Source &source, int b, const RowBlocks<R> &rows, W (&t)[R]) {
        constexpr Arithmetic a = Source::arithmetic;
        static_assert(a.zero == 0 || a.zero == 4 || a.zero == 32);
        const auto &scales = source.scales(b);
        static_for<2>([&](auto half) __attribute__((always_inline)) {
            W sum[R];
            if constexpr (a.zero != 0)
                for (int r = 0; r < R; ++r) {
                    const W zero32 = broadcast_word(rows.pair_zero32(r) + 4 * half);
                    sum[r] = a.zero == 32 ? zero32 : _mm256_srai_epi16(zero32, 3);
                }
            static_for<4>([&](auto i) __attribute__((always_inline)) {
                constexpr int g = 4 * half + i;
                const W w = source.template group<g>(b);
                for (int r = 0; r < R; ++r) {
                    const W product = _mm256_maddubs_epi16(w, broadcast_word(rows.quants(r) + 4 * g));
                    sum[r] = i == 0 && a.zero == 0 ? product : _mm256_add_epi16(sum[r], product);
                }
            });
            for (int r = 0; r < R; ++r) {
                const W scaled = _mm256_madd_epi16(sum[r], half == 0 ? scales.c0 : scales.c1);
                t[r] = half == 0 ? scaled : _mm256_add_epi32(t[r], scaled);
            }
        });
    }

    // Signed weights: |w| times a with w's sign. 2 * 128 * 127 fits 16 bits, but not a second pair.
    template <class Source, int R>
    static MUSER_INLINE void signed_sums(const Source &source, int b, const RowBlocks<R> &rows, W (&t)[R]) {
        const W ones = _mm256_set1_epi16(1);
        static_for<8>([&](auto g) __attribute__((always_inline)) {
            const W w = source.template group<g>(b);
            const W size = _mm256_abs_epi8(w);
            for (int r = 0; r < R; ++r) {
                const W signed_a = _mm256_sign_epi8(broadcast_word(rows.quants(r) + 4 * g), w);
                const W wide = _mm256_madd_epi16(_mm256_maddubs_epi16(size, signed_a), ones);
                t[r] = g == 0 ? wide : _mm256_add_epi32(t[r], wide);
            }
        });
    }
};

} // namespace
} // namespace muser::cpu
