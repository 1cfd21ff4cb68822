// How the kernels read a weight row: in runs of 16 consecutive values that share one scale.
//
//     struct T { enum { kScaled, kLow }; static void unpack(row, i, values, scale, low); };
//
// unpack() gives run i of a row as four float4 of small whole numbers (or, where kScaled is 0, the values themselves),
// with value = scale * whole - low; low is used only where kLow is 1. Blocks of the file start at multiples of 2 bytes
// for most types, so that wider fields are put together from shorts.
#pragma once

#include "common.h"

METAL_FUNC float half_at(device const uchar *p) { return float(*(device const half *)p); }
METAL_FUNC uint ushort_at(device const uchar *p) { return *(device const ushort *)p; }

// 16 bytes at a multiple of 2.
METAL_FUNC uint4 bytes16(device const uchar *p) {
    device const ushort *s = (device const ushort *)p;
    return uint4(uint(s[0]) | uint(s[1]) << 16, uint(s[2]) | uint(s[3]) << 16, uint(s[4]) | uint(s[5]) << 16,
                 uint(s[6]) | uint(s[7]) << 16);
}
METAL_FUNC uint4 aligned_bytes16(device const uchar *p) { return *(device const uint4 *)p; } // at a multiple of 16

// The four bytes of a word, each less `offset`. 0x6400 | b is the half 1024 + b: one operation makes two halves, where
// conversions of integers run at a fraction of the speed. Exact: everything stays below 2048.
METAL_FUNC float4 whole4(uint word, half offset) {
    const half2 even = as_type<half2>((word & 0x00ff00ffu) | 0x64006400u) - half2(offset + 1024.0h);
    const half2 odd = as_type<half2>((word >> 8 & 0x00ff00ffu) | 0x64006400u) - half2(offset + 1024.0h);
    return float4(float(even.x), float(odd.x), float(even.y), float(odd.y));
}
METAL_FUNC void whole16(uint4 words, half offset, thread float4 *values) {
    values[0] = whole4(words.x, offset);
    values[1] = whole4(words.y, offset);
    values[2] = whole4(words.z, offset);
    values[3] = whole4(words.w, offset);
}
METAL_FUNC uint4 fields(uint4 words, uint shift, uint mask) { // of every byte
    return uint4(words.x >> shift & mask, words.y >> shift & mask, words.z >> shift & mask, words.w >> shift & mask);
}

// Bits 0..3 of `bits` to bit `to` of bytes 0..3 of a word.
METAL_FUNC uint spread_bits(uint bits, uint to) { return ((bits & 15u) * 0x00204081u & 0x01010101u) << to; }

// The levels of IQ4_NL and IQ4_XS; part of the format.
constant float kIq4Levels[16] = {-127.0f, -104.0f, -83.0f, -65.0f, -49.0f, -35.0f, -22.0f, -10.0f,
                                 1.0f,    13.0f,   25.0f,  38.0f,  53.0f,  69.0f,  89.0f,  113.0f};
METAL_FUNC void levels16(uint4 words, thread float4 *values) {
    for (short w = 0; w < 4; ++w) {
        const uint word = w == 0 ? words.x : w == 1 ? words.y : w == 2 ? words.z : words.w;
        values[w] = float4(kIq4Levels[word & 15u], kIq4Levels[word >> 8 & 15u], kIq4Levels[word >> 16 & 15u],
                           kIq4Levels[word >> 24 & 15u]);
    }
}
