// Types with 32 values a block: two runs. A nibble plane has run 0 in the low and run 1 in the high halves of its
// 16 bytes. Layouts: csrc/gguf/dequant_32.cpp.
#pragma once

#include "weight.h"

// half d | 32 x int8
struct Q8_0 {
    enum { kScaled = 1, kLow = 0 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &scale, thread float &) {
        device const uchar *block = row + 34 * ulong(i / 2);
        scale = half_at(block);
        const uint4 words = bytes16(block + 2 + 16 * (i % 2));
        whole16(words ^ uint4(0x80808080u), 128.0h, values); // signed to unsigned bytes and back
    }
};

// half d | nibbles
struct Q4_0 {
    enum { kScaled = 1, kLow = 0 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &scale, thread float &) {
        device const uchar *block = row + 18 * ulong(i / 2);
        scale = half_at(block);
        whole16(fields(bytes16(block + 2), 4 * (i % 2), 0x0f0f0f0fu), 8.0h, values);
    }
};

// half d | half m | nibbles
struct Q4_1 {
    enum { kScaled = 1, kLow = 1 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &scale, thread float &low) {
        device const uchar *block = row + 20 * ulong(i / 2);
        scale = half_at(block);
        low = -half_at(block + 2);
        whole16(fields(bytes16(block + 4), 4 * (i % 2), 0x0f0f0f0fu), 0.0h, values);
    }
};

// Nibbles with a fifth bit each, from 16 bits of them.
METAL_FUNC uint4 nibbles_and_bits(uint4 words, uint run, uint bits) {
    return fields(words, 4 * run, 0x0f0f0f0fu) |
           uint4(spread_bits(bits, 4), spread_bits(bits >> 4, 4), spread_bits(bits >> 8, 4), spread_bits(bits >> 12, 4));
}

// half d | 32 high bits | nibbles
struct Q5_0 {
    enum { kScaled = 1, kLow = 0 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &scale, thread float &) {
        device const uchar *block = row + 22 * ulong(i / 2);
        scale = half_at(block);
        whole16(nibbles_and_bits(bytes16(block + 6), i % 2, ushort_at(block + 2 + 2 * (i % 2))), 16.0h, values);
    }
};

// half d | half m | 32 high bits | nibbles
struct Q5_1 {
    enum { kScaled = 1, kLow = 1 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &scale, thread float &low) {
        device const uchar *block = row + 24 * ulong(i / 2);
        scale = half_at(block);
        low = -half_at(block + 2);
        whole16(nibbles_and_bits(bytes16(block + 8), i % 2, ushort_at(block + 4 + 2 * (i % 2))), 0.0h, values);
    }
};

// half d | nibbles, each the number of a level
struct IQ4_NL {
    enum { kScaled = 1, kLow = 0 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &scale, thread float &) {
        device const uchar *block = row + 18 * ulong(i / 2);
        scale = half_at(block);
        levels16(fields(bytes16(block + 2), 4 * (i % 2), 0x0f0f0f0fu), values);
    }
};
