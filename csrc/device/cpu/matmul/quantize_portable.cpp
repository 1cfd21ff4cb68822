// quantize_blocks in plain loops: the rules of activations.h. The vector levels give its bytes.
#include <bit>
#include <cmath>
#include <cstring>

#include "device/cpu/matmul/activations.h"
#include "device/cpu/matmul/kernels.h"

namespace muser::cpu {

namespace {

struct BlockScale {
    float scale, inverse; // zero inverse: all quants are zero
};

BlockScale block_scale(const float *src) {
    uint32_t top = 0; // as integers, magnitudes order like the floats, with infinity and NaN on top
    for (int k = 0; k < 32; ++k) {
        const uint32_t bits = std::bit_cast<uint32_t>(src[k]) & 0x7fffffffu;
        top = bits > top ? bits : top;
    }
    const float largest = std::bit_cast<float>(top);
    if (top >= 0x7f800000u)
        return {std::nanf(""), 0.0f};
    if (largest < kTinyBlock)
        return {0.0f, 0.0f};
    return {largest / 127.0f, 127.0f / largest};
}

template <class T> void put(std::byte *array, size_t index, T value) {
    std::memcpy(array + index * sizeof(T), &value, sizeof(T));
}

} // namespace

void quantize_portable(const float *src, uint64_t cols, uint64_t first, uint64_t last, std::byte *dst) {
    const RowLayout layout(cols);
    for (size_t b = first; b < last; ++b, src += 32) {
        const BlockScale by = block_scale(src);
        int8_t quants[32] = {};
        if (by.inverse != 0.0f)
            for (int k = 0; k < 32; ++k) // to nearest even, the default rounding mode
                quants[k] = static_cast<int8_t>(std::nearbyint(src[k] * by.inverse));
        std::memcpy(dst + 32 * b, quants, 32);

        int pairs[2][2] = {}; // [half][values 0, 1 or values 2, 3 of its groups]
        for (int k = 0; k < 32; ++k)
            pairs[k / 16][k % 4 / 2] += quants[k];
        const int half[2] = {pairs[0][0] + pairs[0][1], pairs[1][0] + pairs[1][1]};
        const int sum = half[0] + half[1];
        put(dst + layout.scale, b, by.scale);
        put(dst + layout.sum, b, by.scale * static_cast<float>(sum));
        put(dst + layout.zero8, b, -8 * sum);
        put(dst + layout.zero128, b, -128 * sum);
        for (int h = 0; h < 2; ++h) {
            put(dst + layout.half_sum, 2 * b + h, by.scale * static_cast<float>(half[h]));
            put(dst + layout.half_zero32, 2 * b + h, -32 * half[h]);
            for (int p = 0; p < 2; ++p)
                put(dst + layout.pair_zero32, 4 * b + 2 * h + p, static_cast<int16_t>(-32 * pairs[h][p]));
        }
    }
}

} // namespace muser::cpu
