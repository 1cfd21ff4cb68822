// Types with 256 values a block: sixteen runs (g is a run's number in its block), whose scale is the block's d times
// a small integer of the run or of two neighbouring runs. Layouts: csrc/gguf/dequant_256.cpp.
#pragma once

#include "weight.h"

// Byte offset of a run in a plane of 2-bit or 4-bit fields, and its shift. Four planes of 32 bytes' fields lie over
// each other in Q2_K, Q3_K and the high bits of Q6_K; two in Q4_K and Q5_K.
METAL_FUNC uint two_bit_offset(uint g) { return g / 8 * 32 + g % 2 * 16; }
METAL_FUNC uint two_bit_shift(uint g) { return g % 8 / 2 * 2; }
METAL_FUNC uint four_bit_offset(uint g) { return g / 4 * 32 + g % 2 * 16; }
METAL_FUNC uint four_bit_shift(uint g) { return g / 2 % 2 * 4; }

// 16 x (4-bit scale, 4-bit min) | 64 bytes of 2-bit q | half d | half dmin
struct Q2_K {
    enum { kScaled = 1, kLow = 1 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &scale, thread float &low) {
        device const uchar *block = row + 84 * ulong(i / 16);
        const uint g = i % 16, packed = block[g];
        scale = half_at(block + 80) * float(packed & 15u);
        low = half_at(block + 82) * float(packed >> 4);
        whole16(fields(bytes16(block + 16 + two_bit_offset(g)), two_bit_shift(g), 0x03030303u), 0.0h, values);
    }
};

// 32 bytes of 1-bit h | 64 bytes of 2-bit l | 12 bytes of 6-bit scales | half d
struct Q3_K {
    enum { kScaled = 1, kLow = 0 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &scale, thread float &) {
        device const uchar *block = row + 110 * ulong(i / 16);
        device const uchar *scales = block + 96;
        const uint g = i % 16;
        const uint low_bits = scales[g % 8] >> (g / 8 * 4) & 15u;
        const uint high_bits = scales[8 + g % 4] >> (g / 4 * 2) & 3u;
        scale = half_at(block + 108) * (float(low_bits | high_bits << 4) - 32.0f);
        const uint4 high = fields(bytes16(block + g % 2 * 16), g / 2, 0x01010101u);
        const uint4 low2 = fields(bytes16(block + 32 + two_bit_offset(g)), two_bit_shift(g), 0x03030303u);
        whole16(low2 | high << uint4(2u), 4.0h, values);
    }
};

// Scale and min of a pair of runs in Q4_K and Q5_K: six bits each, in three words; pairs 4 to 7 have their upper two
// bits in the top of the first two words.
METAL_FUNC void scale_and_min(uint3 packed, uint pair, thread float &scale, thread float &low) {
    const uint shift = pair % 4 * 8;
    uint s = packed.x >> shift, m = packed.y >> shift;
    if (pair < 4) {
        s &= 63u;
        m &= 63u;
    } else {
        const uint nibbles = packed.z >> shift;
        s = (nibbles & 15u) | (s >> 2 & 48u);
        m = (nibbles >> 4 & 15u) | (m >> 2 & 48u);
    }
    scale = float(s);
    low = float(m);
}
// The 16 bytes both begin with: half d | half dmin | 12 bytes of scales and mins.
METAL_FUNC void block_scale(device const uchar *block, uint g, thread float &scale, thread float &low) {
    const uint4 header = aligned_bytes16(block);
    const half2 d = as_type<half2>(header.x);
    scale_and_min(uint3(header.y, header.z, header.w), g / 2, scale, low);
    scale *= float(d.x);
    low *= float(d.y);
}

// header | 128 bytes of 4-bit q
struct Q4_K {
    enum { kScaled = 1, kLow = 1 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &scale, thread float &low) {
        device const uchar *block = row + 144 * ulong(i / 16);
        const uint g = i % 16;
        block_scale(block, g, scale, low);
        whole16(fields(aligned_bytes16(block + 16 + four_bit_offset(g)), four_bit_shift(g), 0x0f0f0f0fu), 0.0h, values);
    }
};

// header | 32 bytes of 1-bit h | 128 bytes of 4-bit l
struct Q5_K {
    enum { kScaled = 1, kLow = 1 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &scale, thread float &low) {
        device const uchar *block = row + 176 * ulong(i / 16);
        const uint g = i % 16;
        block_scale(block, g, scale, low);
        const uint4 high = fields(aligned_bytes16(block + 16 + g % 2 * 16), g / 2, 0x01010101u);
        const uint4 nibbles = fields(aligned_bytes16(block + 48 + four_bit_offset(g)), four_bit_shift(g), 0x0f0f0f0fu);
        whole16(nibbles | high << uint4(4u), 0.0h, values);
    }
};

// 128 bytes of 4-bit l | 64 bytes of 2-bit h | 16 x int8 scale | half d
struct Q6_K {
    enum { kScaled = 1, kLow = 0 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &scale, thread float &) {
        device const uchar *block = row + 210 * ulong(i / 16);
        const uint g = i % 16;
        scale = half_at(block + 208) * float(*(device const char *)(block + 192 + g));
        const uint4 nibbles = fields(bytes16(block + g / 8 * 64 + g % 4 * 16), g / 4 % 2 * 4, 0x0f0f0f0fu);
        const uint4 high = fields(bytes16(block + 128 + two_bit_offset(g)), two_bit_shift(g), 0x03030303u);
        whole16(nibbles | high << uint4(4u), 32.0h, values);
    }
};

// half d | 16 bits of scales | 4 bytes of scales | 128 bytes of nibbles, each the number of a level
struct IQ4_XS {
    enum { kScaled = 1, kLow = 0 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &scale, thread float &) {
        device const uchar *block = row + 136 * ulong(i / 16);
        const uint pair = i % 16 / 2;
        const uint low_bits = block[4 + pair / 2] >> (pair % 2 * 4) & 15u;
        const uint high_bits = ushort_at(block + 2) >> (2 * pair) & 3u;
        scale = half_at(block) * (float(low_bits | high_bits << 4) - 32.0f);
        levels16(fields(bytes16(block + 8 + 16 * pair), 4 * (i % 2), 0x0f0f0f0fu), values);
    }
};
