// quantize_blocks with AVX-512, eight blocks at a time: the layout and rules of activations.h, and the bytes of the
// portable one. What needs a sum or a maximum across lanes is done for all eight by transposing. Include from a level's
// source file only.
#pragma once

#include <immintrin.h>

#include "device/cpu/matmul/activations.h"
#include "device/cpu/matmul/vector_source.h"

namespace muser::cpu {
namespace {

constexpr int kBlocksOfQuantizer = 8;

// [i]: the largest lane of t[i].
MUSER_INLINE __m256i largest_of_each(const __m512i (&t)[kBlocksOfQuantizer]) {
    const auto both = [](__m256i low, __m256i high) { return _mm256_max_epi32(low, high); };
    __m256i x[8], pairs[4], fours[2];
    for (int i = 0; i < 8; ++i)
        x[i] = both(_mm512_castsi512_si256(t[i]), _mm512_extracti64x4_epi64(t[i], 1));
    for (int i = 0; i < 4; ++i)
        pairs[i] = both(_mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]), _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]));
    for (int i = 0; i < 2; ++i)
        fours[i] =
            both(_mm256_unpacklo_epi64(pairs[2 * i], pairs[2 * i + 1]), _mm256_unpackhi_epi64(pairs[2 * i], pairs[2 * i + 1]));
    return both(_mm256_permute2x128_si256(fours[0], fours[1], 0x20), _mm256_permute2x128_si256(fours[0], fours[1], 0x31));
}

// [block][half] of 8 blocks: (sum of values 0, 1 of each group) | (sum of values 2, 3) << 16.
MUSER_INLINE __m512i pair_sums_of_each(const __m512i (&quants)[kBlocksOfQuantizer / 2], __m512i transpose) {
    __m512i x[4];
    for (int i = 0; i < 4; ++i)
        x[i] = _mm512_maddubs_epi16(_mm512_set1_epi8(1), quants[i]);
    const auto both = [](__m512i low, __m512i high) { return _mm512_add_epi16(low, high); };
    const __m512i a = both(_mm512_unpacklo_epi32(x[0], x[1]), _mm512_unpackhi_epi32(x[0], x[1]));
    const __m512i b = both(_mm512_unpacklo_epi32(x[2], x[3]), _mm512_unpackhi_epi32(x[2], x[3]));
    return _mm512_permutexvar_epi32(transpose, both(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)));
}

// Blocks [b, b + n) of a row, whose values start at src. Where n is less than 8, what a record has room for behind
// them becomes zero.
template <bool full> MUSER_INLINE void quantize_blocks(const float *src, int n, const RowLayout &layout, size_t b, std::byte *dst) {
    const auto values = [&](int i, int part) __attribute__((always_inline)) {
        const auto there = static_cast<__mmask16>(full || i < n ? 0xffff : 0);
        return _mm512_maskz_loadu_ps(there, src + 32 * i + 16 * part);
    };
    // As integers, magnitudes order like the floats, with infinity and NaN on top.
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i top[kBlocksOfQuantizer];
    for (int i = 0; i < kBlocksOfQuantizer; ++i)
        top[i] = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(values(i, 0)), magnitude),
                                  _mm512_and_si512(_mm512_castps_si512(values(i, 1)), magnitude));
    const __m256i bits = largest_of_each(top);
    const __m256 largest = _mm256_castsi256_ps(bits);
    const __mmask8 finite = _mm256_cmplt_epi32_mask(bits, _mm256_set1_epi32(0x7f800000));
    const __mmask8 counts = finite & _mm256_cmp_ps_mask(largest, _mm256_set1_ps(kTinyBlock), _CMP_GE_OQ);
    const __m256 scale = _mm256_mask_blend_ps(finite, _mm256_set1_ps(__builtin_nanf("")),
                                              _mm256_maskz_div_ps(counts, largest, _mm256_set1_ps(127.0f)));
    alignas(32) float inverse[kBlocksOfQuantizer];
    _mm256_store_ps(inverse, _mm256_maskz_div_ps(counts, _mm256_set1_ps(127.0f), largest));

    const __m512i transpose = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i quants[kBlocksOfQuantizer / 2]; // two blocks each
    for (int i = 0; i < kBlocksOfQuantizer / 2; ++i) {
        __m512i w[4];
        for (int k = 0; k < 4; ++k) {
            const int block = 2 * i + k / 2;
            const auto lanes = static_cast<__mmask16>(-(counts >> block & 1));
            // to nearest even, the default rounding mode
            w[k] = _mm512_maskz_cvtps_epi32(lanes, _mm512_mul_ps(values(block, k % 2), _mm512_set1_ps(inverse[block])));
        }
        quants[i] = _mm512_permutexvar_epi32(
            transpose, _mm512_packs_epi16(_mm512_packs_epi32(w[0], w[1]), _mm512_packs_epi32(w[2], w[3])));
        if (full || 2 * i < n)
            _mm512_storeu_si512(dst + 32 * (b + 2 * i), quants[i]);
    }

    const __m512i pairs = pair_sums_of_each(quants, transpose);
    const __m512i halves = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
    const __m256i sums = _mm512_cvtepi64_epi32(_mm512_add_epi32(halves, _mm512_srli_epi64(halves, 32)));
    const __m512 half_scale = _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                                                    _mm512_castps256_ps512(scale));
    const __m256i none = _mm256_setzero_si256();
    const __m512i nothing = _mm512_setzero_si512();
    const auto put = [&](size_t array, __m256i x) __attribute__((always_inline)) {
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(dst + array + 4 * b), x);
    };
    const auto put_halves = [&](size_t array, __m512i x) __attribute__((always_inline)) {
        _mm512_storeu_si512(dst + array + 8 * b, x);
    };
    put(layout.scale, _mm256_castps_si256(scale));
    put(layout.sum, _mm256_castps_si256(_mm256_mul_ps(scale, _mm256_cvtepi32_ps(sums))));
    put(layout.zero8, _mm256_sub_epi32(none, _mm256_slli_epi32(sums, 3)));
    put(layout.zero128, _mm256_sub_epi32(none, _mm256_slli_epi32(sums, 7)));
    put_halves(layout.half_sum, _mm512_castps_si512(_mm512_mul_ps(half_scale, _mm512_cvtepi32_ps(halves))));
    put_halves(layout.half_zero32, _mm512_sub_epi32(nothing, _mm512_slli_epi32(halves, 5)));
    put_halves(layout.pair_zero32, _mm512_sub_epi16(nothing, _mm512_slli_epi16(pairs, 5)));
}

void quantize_avx512(const float *src, uint64_t cols, uint64_t first, uint64_t last, std::byte *dst) {
    const RowLayout layout(cols);
    size_t b = first;
    for (; b + kBlocksOfQuantizer <= last; b += kBlocksOfQuantizer, src += 32 * kBlocksOfQuantizer)
        quantize_blocks<true>(src, kBlocksOfQuantizer, layout, b, dst);
    if (b < last)
        quantize_blocks<false>(src, static_cast<int>(last - b), layout, b, dst);
}

} // namespace
} // namespace muser::cpu
