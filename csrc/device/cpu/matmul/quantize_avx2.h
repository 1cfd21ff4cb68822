// quantize_blocks with AVX2: the layout and rules of activations.h. Include from a level's source file only.
#pragma once

#include <immintrin.h>

#include "device/cpu/matmul/activations.h"
#include "device/cpu/matmul/vector_source.h"

namespace muser::cpu {
namespace {

// The largest lane.
MUSER_INLINE int32_t largest_of(__m256i x) {
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return _mm_cvtsi128_si32(m);
}

// [half]: (sum of values 0, 1 of each group) | (sum of values 2, 3) << 16, in the low word of each 128 bits.
MUSER_INLINE __m256i pair_sums(__m256i quants) {
    __m256i x = _mm256_maddubs_epi16(_mm256_set1_epi8(1), quants);
    x = _mm256_add_epi16(x, _mm256_shuffle_epi32(x, 0x4e));
    return _mm256_add_epi16(x, _mm256_shuffle_epi32(x, 0xb1));
}

template <class T> MUSER_INLINE void put(std::byte *array, size_t index, T value) {
    __builtin_memcpy(array + index * sizeof(T), &value, sizeof(T));
}

void quantize_avx2(const float *src, uint64_t cols, uint64_t first, uint64_t last, std::byte *dst) {
    const RowLayout layout(cols);
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); // undoes the 128-bit lanes of the packs
    for (size_t b = first; b < last; ++b, src += 32) {
        __m256 x[4];
        __m256i top = _mm256_setzero_si256();
        for (int i = 0; i < 4; ++i) {
            x[i] = _mm256_loadu_ps(src + 8 * i);
            top = _mm256_max_epi32(top, _mm256_and_si256(_mm256_castps_si256(x[i]), magnitude));
        }
        // As integers, magnitudes order like the floats, with infinity and NaN on top.
        const int32_t bits = largest_of(top);
        float largest;
        __builtin_memcpy(&largest, &bits, sizeof largest);
        float scale = largest / 127.0f, inverse = 127.0f / largest;
        const bool finite = bits < 0x7f800000;
        if (!finite || largest < kTinyBlock) {
            scale = finite ? 0.0f : __builtin_nanf("");
            inverse = 0.0f;
        }
        __m256i q = _mm256_setzero_si256();
        if (finite) {
            const __m256 by = _mm256_set1_ps(inverse);
            __m256i w[4];
            for (int i = 0; i < 4; ++i)
                w[i] =
                    _mm256_cvtps_epi32(_mm256_mul_ps(x[i], by)); // to nearest even, the default rounding mode
            q = _mm256_packs_epi16(_mm256_packs_epi32(w[0], w[1]), _mm256_packs_epi32(w[2], w[3]));
            q = _mm256_permutevar8x32_epi32(q, order);
        }
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(dst + 32 * b), q);

        const __m256i pairs = pair_sums(q);
        const __m256i zero32 = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16(pairs, 5));
        const __m256i halves = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        const int half0 = _mm256_extract_epi32(halves, 0), half1 = _mm256_extract_epi32(halves, 4);
        const int sum = half0 + half1;
        put(dst + layout.scale, b, scale);
        put(dst + layout.sum, b, scale * static_cast<float>(sum));
        put(dst + layout.zero8, b, -8 * sum);
        put(dst + layout.zero128, b, -128 * sum);
        put(dst + layout.half_sum, 2 * b, scale * static_cast<float>(half0));
        put(dst + layout.half_sum, 2 * b + 1, scale * static_cast<float>(half1));
        put(dst + layout.half_zero32, 2 * b, -32 * half0);
        put(dst + layout.half_zero32, 2 * b + 1, -32 * half1);
        put(dst + layout.pair_zero32, 2 * b, _mm256_extract_epi32(zero32, 0));
        put(dst + layout.pair_zero32, 2 * b + 1, _mm256_extract_epi32(zero32, 4));
    }
}

} // namespace
} // namespace muser::cpu
