// Types with 256 values a block: sixteen runs in eight units. Fields of two or four bits lie over each other in the
// same bytes, those of a unit's two runs next to each other. A run's scale is the block's d times a small integer of
// the run or of two neighbouring runs. Layouts: csrc/gguf/dequant_256.cpp.
#pragma once

#include "weight.h"

// Byte offset of a run's fields in a plane of 2-bit fields, and their shift: four runs lie over each other in Q2_K,
// Q3_K and the high bits of Q6_K.
METAL_FUNC uint two_bit_offset(uint run) { return run / 8 * 32 + run % 2 * 16; }
METAL_FUNC uint two_bit_shift(uint run) { return run % 8 / 2 * 2; }

// 16 x (4-bit scale, 4-bit min) | 64 bytes of 2-bit q | half d | half dmin
struct Q2_K {
    enum { kRuns = 2, kSecond = 2, kTileBytes = 4 * 84, kScaled = 1, kLow = 1 };
    struct Raw {
        uint4 q;
        uint d;
        uint packed[2];
    };
    static METAL_FUNC uint run(ushort unit) { return first_run<Q2_K>(unit) % 16; }
    static METAL_FUNC void load(device const uchar *tile, uint, ushort unit, bool, thread Raw &raw) {
        device const uchar *block = tile + 84 * (unit / 8);
        raw.q = bytes16(block + 16 + two_bit_offset(run(unit)));
        raw.d = *(device const uint *)(block + 80);
        raw.packed[0] = block[run(unit)];
        raw.packed[1] = block[run(unit) + 2];
    }
    static METAL_FUNC void scales(thread const Raw &raw, ushort, thread float2 &scale, thread float2 &low) {
        scale = low_half(raw.d) * float2(float(raw.packed[0] & 15u), float(raw.packed[1] & 15u));
        low = high_half(raw.d) * float2(float(raw.packed[0] >> 4), float(raw.packed[1] >> 4));
    }
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort unit, ushort part, ushort k, uint halves) {
        return whole4_at(word_of(raw.q, k), two_bit_shift(run(unit)) + 2 * part, 0x00030003u, 0.0h, halves);
    }
};

// 32 bytes of 1-bit h | 64 bytes of 2-bit l | 12 bytes of 6-bit scales | half d
struct Q3_K {
    enum { kRuns = 2, kSecond = 2, kTileBytes = 4 * 110, kScaled = 1, kLow = 0 };
    struct Raw {
        SplitBytes high, low;
        float d;
        uint scales[2];
    };
    static METAL_FUNC uint run(ushort unit) { return first_run<Q3_K>(unit) % 16; }
    static METAL_FUNC uint scale_bits(device const uchar *scales, uint g) {
        return (scales[g % 8] >> (g / 8 * 4) & 15u) | (scales[8 + g % 4] >> (g / 4 * 2) & 3u) << 4;
    }
    static METAL_FUNC void load(device const uchar *tile, uint odd, ushort unit, bool, thread Raw &raw) {
        const uint at = 110 * (unit / 8);
        device const uchar *block = tile + at;
        const bool split = ((at ^ odd) & 2u) != 0;
        load_split(block + run(unit) % 2 * 16, split, raw.high);
        load_split(block + 32 + two_bit_offset(run(unit)), split, raw.low);
        raw.d = half_at(block + 108);
        for (short k = 0; k < 2; ++k)
            raw.scales[k] = scale_bits(block + 96, run(unit) + 2 * k);
    }
    static METAL_FUNC void scales(thread const Raw &raw, ushort, thread float2 &scale, thread float2 &) {
        scale = raw.d * (float2(float(raw.scales[0]), float(raw.scales[1])) - 32.0f);
    }
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort unit, ushort part, ushort k, uint halves) {
        const uint high = moved(split_word(raw.high, k), run(unit) / 2 + part, 2) & 0x04040404u;
        const uint low = split_word(raw.low, k) >> (two_bit_shift(run(unit)) + 2 * part) & 0x03030303u;
        return whole4(low | high, 0x00070007u, 4.0h, halves);
    }
};

// The 16 bytes that Q4_K and Q5_K begin with: half d | half dmin | six-bit scales and mins of eight pairs of runs, in
// three words; pairs 4 to 7 have their upper two bits in the top of the first two words. A unit has two pairs.
METAL_FUNC void pair_scales(uint4 header, ushort unit, thread float2 &scale, thread float2 &low) {
    const bool first = unit % 8 < 4;
    const uint shift = unit / 2 % 2 * 16;
    const uint from = first ? shift : shift + 2, mask = first ? 0x3f3fu : 0x3030u, nibbles = first ? 0u : 0x0f0fu;
    const uint rest = header.w >> shift;
    const uint s = (header.y >> from & mask) | (rest & nibbles), m = (header.z >> from & mask) | (rest >> 4 & nibbles);
    scale = low_half(header.x) * float2(float(s & 255u), float(s >> 8));
    low = high_half(header.x) * float2(float(m & 255u), float(m >> 8));
}

// header | 128 bytes of 4-bit q
struct Q4_K {
    enum { kRuns = 2, kSecond = 2, kTileBytes = 4 * 144, kScaled = 1, kLow = 1 };
    struct Raw {
        uint4 header, q;
    };
    static METAL_FUNC void load(device const uchar *tile, uint, ushort unit, bool, thread Raw &raw) {
        device const uchar *block = tile + 144 * (unit / 8);
        raw.header = aligned_bytes16(block);
        raw.q = aligned_bytes16(block + 16 + unit % 8 * 16);
    }
    static METAL_FUNC void scales(thread const Raw &raw, ushort unit, thread float2 &scale, thread float2 &low) {
        pair_scales(raw.header, unit, scale, low);
        scale16(scale, low);
    }
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort, ushort part, ushort k, uint halves) {
        return nibbles4(word_of(raw.q, k), part, halves);
    }
};

// header | 32 bytes of 1-bit h | 128 bytes of 4-bit l
struct Q5_K {
    enum { kRuns = 2, kSecond = 2, kTileBytes = 4 * 176, kScaled = 1, kLow = 1 };
    struct Raw {
        uint4 header, high, low;
    };
    static METAL_FUNC void load(device const uchar *tile, uint, ushort unit, bool, thread Raw &raw) {
        device const uchar *block = tile + 176 * (unit / 8);
        raw.header = aligned_bytes16(block);
        raw.high = aligned_bytes16(block + 16 + unit % 2 * 16);
        raw.low = aligned_bytes16(block + 48 + unit % 8 * 16);
    }
    static METAL_FUNC void scales(thread const Raw &raw, ushort unit, thread float2 &scale, thread float2 &low) {
        pair_scales(raw.header, unit, scale, low);
    }
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort unit, ushort part, ushort k, uint halves) {
        const uint high = moved(word_of(raw.high, k), unit % 8 / 2 * 2 + part, 4) & 0x10101010u;
        return whole4((word_of(raw.low, k) >> (4 * part) & 0x0f0f0f0fu) | high, 0x001f001fu, 0.0h, halves);
    }
};

// 128 bytes of 4-bit l | 64 bytes of 2-bit h | 16 x int8 scale | half d
struct Q6_K {
    enum { kRuns = 2, kSecond = 4, kTileBytes = 4 * 210, kScaled = 1, kLow = 0 };
    struct Raw {
        SplitBytes low, high;
        float d;
        int scales[2];
        bool whole;
    };
    static METAL_FUNC uint run(ushort unit) { return first_run<Q6_K>(unit) % 16; }
    static METAL_FUNC void load(device const uchar *tile, uint odd, ushort unit, bool whole, thread Raw &raw) {
        const uint at = 210 * (unit / 8);
        device const uchar *block = tile + at;
        const bool split = ((at ^ odd) & 2u) != 0;
        raw.whole = whole;
        if (whole)
            load_split_words(block + unit % 8 * 16, split, raw.low);
        else
            load_split(block + unit % 8 * 16, split, raw.low);
        load_split(block + 128 + two_bit_offset(run(unit)), split, raw.high);
        raw.d = half_at(block + 208);
        for (short k = 0; k < 2; ++k)
            raw.scales[k] = *(device const char *)(block + 192 + run(unit) + 4 * k);
    }
    static METAL_FUNC void scales(thread const Raw &raw, ushort, thread float2 &scale, thread float2 &) {
        scale = raw.d * float2(float(raw.scales[0]), float(raw.scales[1]));
    }
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort unit, ushort part, ushort k, uint halves) {
        SplitBytes low = raw.low;
        if (raw.whole && k == 3) { // the end is in the next lane's first word; behind the eighth are the first's high bits
            const uint first = unit % 8 == 0 ? raw.high.words.x : raw.low.words.x;
            low.end = simd_shuffle(first, ushort(unit / 8 * 8 + (unit + 1) % 8));
        }
        const uint high = moved(split_word(raw.high, k), two_bit_shift(run(unit)) + 4 * part, 4) & 0x30303030u;
        return whole4((split_word(low, k) >> (4 * part) & 0x0f0f0f0fu) | high, 0x003f003fu, 32.0h, halves);
    }
};

// half d | 16 bits of scales | 4 bytes of scales | 128 bytes of nibbles, each the number of a level
struct IQ4_XS {
    enum { kRuns = 2, kSecond = 1, kTileBytes = 4 * 136, kScaled = 1, kLow = 0 };
    struct Raw {
        uint2 header;
        uint2 nibbles[2];
    };
    static METAL_FUNC void load(device const uchar *tile, uint, ushort unit, bool, thread Raw &raw) {
        device const uchar *block = tile + 136 * (unit / 8);
        raw.header = *(device const uint2 *)block;
        for (short k = 0; k < 2; ++k)
            raw.nibbles[k] = *(device const uint2 *)(block + 8 + unit % 8 * 16 + 8 * k);
    }
    static METAL_FUNC void scales(thread const Raw &raw, ushort unit, thread float2 &scale, thread float2 &) {
        const uint pair = unit % 8;
        const uint bits = (raw.header.y >> (4 * pair) & 15u) | (raw.header.x >> (16 + 2 * pair) & 3u) << 4;
        scale = float2(low_half(raw.header.x) * (float(bits) - 32.0f));
    }
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort, ushort part, ushort k, uint halves) {
        const uint2 two = raw.nibbles[k / 2];
        return levels4(k % 2 == 0 ? two.x : two.y, 4 * part);
    }
};
