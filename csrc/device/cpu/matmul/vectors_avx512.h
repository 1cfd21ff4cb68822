// AVX-512 vectors with VNNI (dot_sums.h). A tile has 32 lanes, two registers a vector: its halves share every broadcast
// of an activation.
// Include from *_avx512.cpp only.
#pragma once

#include <immintrin.h>

#include "device/cpu/matmul/dot_sums.h"
#include "device/cpu/matmul/iq4_levels.h"

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
    template <int n> static MUSER_INLINE W shift_right_signed(W x) {
        return {_mm512_srai_epi32(x.a, n), _mm512_srai_epi32(x.b, n)};
    }
    static MUSER_INLINE W top_byte(W x) { return shift_right_signed<24>(x); }
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

    static MUSER_INLINE W splat_word(const std::byte *p) {
        uint32_t word;
        __builtin_memcpy(&word, p, sizeof word);
        return splat(word);
    }
    // sum + the products of w's four bytes, unsigned, with the four at `values`.
    static MUSER_INLINE W dot(W sum, W w, const std::byte *values) {
        const W x = splat_word(values);
        return {_mm512_dpbusd_epi32(sum.a, w.a, x.a), _mm512_dpbusd_epi32(sum.b, w.b, x.b)};
    }
    template <class Source, int R>
    static MUSER_INLINE void block_sums(const Source &source, int b, const RowBlocks<R> &rows, F (&out)[R]) {
        dot_sums<Avx512>(source, b, rows, out);
    }
};

} // namespace
} // namespace muser::cpu
