// What every kernel shares: the order of values in a matvec's input, and reductions over a SIMD-group.
#pragma once

#include <metal_stdlib>
using namespace metal;

#include "args.h"

// Before a loop over registers: an array whose index is not a constant would lie in memory.
#define UNROLLED _Pragma("clang loop unroll(full)")

// Where value i of a row lies in a matvec's input. A lane takes runs of 16 consecutive values; stored as they come,
// the 32 lanes' loads of 16 bytes each would be 64 bytes apart. So in each tile of 512 values the first float4 of
// every run comes first, then every second float4, and so on: 32 lanes read 512 consecutive bytes at once. The runs of
// a tile are in the order of the Gray code: any eight that neighbouring lanes read at once, be it each run, every
// second, or two or four of every four or eight, lie in different banks of 16 bytes.
METAL_FUNC uint run_place(uint run) { return run ^ run >> 1; } // of a tile's 32
METAL_FUNC uint lane_order(uint i) {
    const uint quarter = i / 4 % 4;
    return (i & ~511u) + quarter * 128 + run_place(i / 16 % 32) * 4 + i % 4;
}

// Sum over each half of a SIMD-group, and over all of it, in every lane, by one fixed tree, whatever simd_sum() may do.
METAL_FUNC float half_tree_sum(float x) {
    x += simd_shuffle_xor(x, 8);
    x += simd_shuffle_xor(x, 4);
    x += simd_shuffle_xor(x, 2);
    return x + simd_shuffle_xor(x, 1);
}
METAL_FUNC float tree_sum(float x) { return half_tree_sum(x + simd_shuffle_xor(x, 16)); }

METAL_FUNC float4 multiply_add(float4 a, float4 b, float4 c) {
    return float4(fma(a.x, b.x, c.x), fma(a.y, b.y, c.y), fma(a.z, b.z, c.z), fma(a.w, b.w, c.w));
}
METAL_FUNC float sum_of(float4 a) { return (a.x + a.y) + (a.z + a.w); }

// The sum of the products, one after the other; dot_and() goes on from `sum`.
METAL_FUNC float dot_and(float4 a, float4 b, float sum) { return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum)))); }
METAL_FUNC float dot_of(float4 a, float4 b) { return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, a.x * b.x))); }
