// Types with 32 values a block: two runs. A nibble plane has run 0 in the low and run 1 in the high halves of its
// 16 bytes, so that a unit is a block. Layouts: csrc/gguf/dequant_32.cpp.
#pragma once

#include "weight.h"

// half d | 32 x int8. A unit is one run here.
struct Q8_0 {
    enum { kRuns = 1, kSecond = 1, kTileBytes = 16 * 34, kScaled = 1, kLow = 0 };
    struct Raw {
        SplitBytes bytes;
        float d;
    };
    static METAL_FUNC void load(device const uchar *tile, uint odd, ushort unit, bool, thread Raw &raw) {
        const uint at = 34 * (unit / 2);
        load_split(tile + at + 2 + 16 * (unit % 2), ((at ^ odd) & 2u) == 0, raw.bytes);
        raw.d = half_at(tile + at);
    }
    static METAL_FUNC void scales(thread const Raw &raw, ushort, thread float2 &scale, thread float2 &) { scale = float2(raw.d); }
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort, ushort, ushort k, uint halves) {
        return whole4(split_word(raw.bytes, k), 0x00ff00ffu, 128.0h, halves ^ 0x00800080u); // signed to unsigned bytes and back
    }
};

// half d | nibbles
struct Q4_0 {
    enum { kRuns = 2, kSecond = 1, kTileBytes = 32 * 18, kScaled = 1, kLow = 0 };
    struct Raw {
        HeadedBytes nibbles; // headed by d
    };
    static METAL_FUNC void load(device const uchar *tile, uint odd, ushort unit, bool whole, thread Raw &raw) {
        load_headed(tile + 18 * unit, ((18 * unit ^ odd) & 2u) == 0, whole, raw.nibbles);
    }
    static METAL_FUNC void scales(thread const Raw &raw, ushort, thread float2 &scale, thread float2 &) { scale = float2(head_of(raw.nibbles)); }
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort, ushort part, ushort k, uint halves) {
        return whole4_at(headed_word(raw.nibbles, k), 4 * part, 0x000f000fu, 8.0h, halves);
    }
};

// half d | half m | nibbles
struct Q4_1 {
    enum { kRuns = 2, kSecond = 1, kTileBytes = 32 * 20, kScaled = 1, kLow = 1 };
    struct Raw {
        uint header;
        uint4 nibbles;
    };
    static METAL_FUNC void load(device const uchar *tile, uint, ushort unit, bool, thread Raw &raw) {
        raw.header = *(device const uint *)(tile + 20 * unit);
        raw.nibbles = bytes16(tile + 20 * unit + 4);
    }
    static METAL_FUNC void scales(thread const Raw &raw, ushort, thread float2 &scale, thread float2 &low) {
        scale = float2(low_half(raw.header));
        low = float2(-high_half(raw.header));
        scale16(scale, low);
    }
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort, ushort part, ushort k, uint halves) {
        return nibbles4(word_of(raw.nibbles, k), part, halves);
    }
};

// Four nibbles with a fifth bit each, of the block's 32: quarter k of run `part`.
METAL_FUNC float4 five_bits(uint nibbles, uint bits, ushort part, ushort k, half offset, uint halves) {
    const uint high = spread_bits(bits >> (16 * part + 4 * k), 4);
    return whole4((nibbles >> (4 * part) & 0x0f0f0f0fu) | high, 0x001f001fu, offset, halves);
}

// half d | 32 high bits | nibbles
struct Q5_0 {
    enum { kRuns = 2, kSecond = 1, kTileBytes = 32 * 22, kScaled = 1, kLow = 0 };
    struct Raw {
        SplitBytes nibbles;
        uint bits;
        float d;
    };
    static METAL_FUNC void load(device const uchar *tile, uint odd, ushort unit, bool, thread Raw &raw) {
        device const uchar *block = tile + 22 * unit;
        load_split(block + 6, ((22 * unit ^ odd) & 2u) == 0, raw.nibbles);
        raw.bits = ushort_at(block + 2) | ushort_at(block + 4) << 16;
        raw.d = half_at(block);
    }
    static METAL_FUNC void scales(thread const Raw &raw, ushort, thread float2 &scale, thread float2 &) { scale = float2(raw.d); }
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort, ushort part, ushort k, uint halves) {
        return five_bits(split_word(raw.nibbles, k), raw.bits, part, k, 16.0h, halves);
    }
};

// half d | half m | 32 high bits | nibbles
struct Q5_1 {
    enum { kRuns = 2, kSecond = 1, kTileBytes = 32 * 24, kScaled = 1, kLow = 1 };
    struct Raw {
        uint2 header;
        uint2 nibbles[2];
    };
    static METAL_FUNC void load(device const uchar *tile, uint, ushort unit, bool, thread Raw &raw) {
        device const uint2 *block = (device const uint2 *)(tile + 24 * unit);
        raw.header = block[0];
        raw.nibbles[0] = block[1];
        raw.nibbles[1] = block[2];
    }
    static METAL_FUNC void scales(thread const Raw &raw, ushort, thread float2 &scale, thread float2 &low) {
        scale = float2(low_half(raw.header.x));
        low = float2(-high_half(raw.header.x));
        scale16(scale, low);
    }
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort, ushort part, ushort k, uint halves) {
        const uint2 two = raw.nibbles[k / 2];
        const uint nibbles = k % 2 == 0 ? two.x : two.y;
        if (part == 0)
            return five_bits(nibbles, raw.header.y, part, k, 0.0h, halves);
        const uint bits = (raw.header.y >> (16 + 4 * k) & 15u) * 0x00204081u; // as in spread_bits()
        return high_five_bits4(nibbles, bits << 8, bits, halves);
    }
};

// half d | nibbles, each the number of a level
struct IQ4_NL {
    enum { kRuns = 2, kSecond = 1, kTileBytes = 32 * 18, kScaled = 1, kLow = 0 };
    struct Raw {
        HeadedBytes nibbles; // headed by d
    };
    static METAL_FUNC void load(device const uchar *tile, uint odd, ushort unit, bool whole, thread Raw &raw) {
        load_headed(tile + 18 * unit, ((18 * unit ^ odd) & 2u) == 0, whole, raw.nibbles);
    }
    static METAL_FUNC void scales(thread const Raw &raw, ushort, thread float2 &scale, thread float2 &) { scale = float2(head_of(raw.nibbles)); }
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort, ushort part, ushort k, uint halves) {
        return levels4(headed_word(raw.nibbles, k), 4 * part);
    }
};
