// Upper bounds of the outputs of a kSplitQ8 matrix, from half of its bytes: enough to know which tiles can have the largest.
//
// A weight is d * q with d >= 0 and q = 16 h + l, -8 <= h < 8 and 0 <= l < 16. The first plane has d and h. In a block of 32
// with activations s * a, s >= 0,
//     d s sum(q a) <= 16 d s sum(h a) + d s 15 sum(max(a, 0)),
// which is the arithmetic of scale_min (format.h) with scale 16 d and minimum d, for an activation row whose `sum` is
// s * 15 * sum(max(a, 0)). bound_row() puts that there, and on top of it
//     s * (4 blocks + 8) 2^-16 * sum(|a|)
// for rounding: over all blocks the chain of the product and that of its bound are each off by less than
// (2 blocks + 4) 2^-24 times the sum of the terms' magnitudes, d s 143 sum(|a|) at most. And 2^-100, for what subnormal
// numbers lose: less than 2^-130 a block, where d is 2^-24 or more.
//
// An output can be NaN, or larger than this sum, only where the sum is not finite itself: -inf and NaN, too, come out of
// MatmulKernels::bounds as +inf.
#pragma once

#include "device/cpu/matmul.h"
#include "device/cpu/matmul/format.h"

namespace muser::cpu {

// Makes the record of a quantized row fit for MatmulKernels::bounds; for products with Q8_0 it stays what it is.
void bound_row(std::byte *record, uint64_t cols);

// A kSplitQ8 matrix without its low bits.
MUSER_INLINE PackedMatrix first_plane(const PackedMatrix &matrix) {
    PackedMatrix high = matrix;
    high.type = kHighQ8;
    high.low = nullptr;
    return high;
}

// Tile `index` as a kSplitQ8 matrix by itself.
MUSER_INLINE PackedMatrix one_tile(const PackedMatrix &matrix, uint64_t index) {
    const auto lanes = static_cast<uint64_t>(matrix.lanes), left = matrix.rows - index * lanes;
    PackedMatrix tile = matrix;
    tile.rows = left < lanes ? left : lanes;
    tile.data += index * matrix.tile_bytes;
    tile.low += index * low_tile_bytes(matrix.type, matrix.cols, matrix.lanes);
    return tile;
}

} // namespace muser::cpu
