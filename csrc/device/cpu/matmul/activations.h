// The int8 form of one activation row: arrays, each [blocks] unless said, at offsets that depend on cols
// alone. A kernel touches only the arrays of its weight type, so the unused ones cost no cache.
//
//   quants     int8 [cols]         round to nearest even of value / scale, within -127..127
//   scale      float               largest magnitude of the block / 127
//   sum        float               scale * (sum of the block's quants)
//   half_sum   float [blocks, 2]   the same for values 0..15 and 16..31
//   zero8, zero128      int32      -8 or -128 times the sum of quants: the zero points of unsigned weights
//   half_zero32  int32 [blocks, 2] -32 times the sum of each half
//   pair_zero32  int16 [blocks, 2, 2] -32 times the sums of values 0, 1 and of values 2, 3 of each group of
//                                  a half: the same correction for 16-bit lanes
// A block whose largest magnitude is below kTinyBlock counts as zero (its reciprocal could overflow). A block
// with a NaN or an infinity gets a NaN scale and zero quants, so every product with it is NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cpu/matmul/format.h"

namespace muser::cpu {

inline constexpr float kTinyBlock = 0x1p-100f;

struct RowLayout {
    size_t blocks;
    size_t scale, sum, half_sum, zero8, zero128, half_zero32, pair_zero32; // byte offsets
    size_t bytes;

    explicit constexpr MUSER_INLINE RowLayout(uint64_t cols) : blocks((cols + 31) / 32) {
        const size_t array = round_up(blocks * 4, 64); // 4 bytes a block, one cache line at least
        scale = round_up(blocks * 32, 64);
        sum = scale + array;
        zero8 = sum + array;
        zero128 = zero8 + array;
        half_sum = zero128 + array;
        half_zero32 = half_sum + 2 * array;
        pair_zero32 = half_zero32 + 2 * array;
        bytes = pair_zero32 + 2 * array;
        if (bytes % 1024 == 0) // rows at a large power-of-two distance would share cache sets
            bytes += 64;
    }
};

} // namespace muser::cpu
