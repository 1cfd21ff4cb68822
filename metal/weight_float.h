// Weights that are floating-point numbers in the file.
#pragma once

#include "weight.h"

struct F32 {
    enum { kRuns = 1, kSecond = 1, kTileBytes = 2048, kScaled = 0, kLow = 0 };
    struct Raw {
        float4 values[4];
    };
    static METAL_FUNC void load(device const uchar *tile, uint, ushort unit, bool, thread Raw &raw) {
        for (short k = 0; k < 4; ++k)
            raw.values[k] = *(device const float4 *)(tile + 64 * unit + 16 * k);
    }
    static METAL_FUNC void scales(thread const Raw &, ushort, thread float2 &, thread float2 &) {}
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort, ushort, ushort k, uint halves) { return raw.values[k]; }
};

struct F16 {
    enum { kRuns = 1, kSecond = 1, kTileBytes = 1024, kScaled = 0, kLow = 0 };
    struct Raw {
        uint4 words[2];
    };
    static METAL_FUNC void load(device const uchar *tile, uint, ushort unit, bool, thread Raw &raw) {
        raw.words[0] = aligned_bytes16(tile + 32 * unit);
        raw.words[1] = aligned_bytes16(tile + 32 * unit + 16);
    }
    static METAL_FUNC void scales(thread const Raw &, ushort, thread float2 &, thread float2 &) {}
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort, ushort, ushort k, uint halves) {
        const uint4 w = raw.words[k / 2];
        const uint a = k % 2 == 0 ? w.x : w.z, b = k % 2 == 0 ? w.y : w.w;
        return float4(low_half(a), high_half(a), low_half(b), high_half(b));
    }
};

// The upper half of a float32. Not `bfloat`, which the oldest supported systems do not have.
struct BF16 {
    enum { kRuns = 1, kSecond = 1, kTileBytes = 1024, kScaled = 0, kLow = 0 };
    struct Raw {
        uint4 words[2];
    };
    static METAL_FUNC void load(device const uchar *tile, uint, ushort unit, bool, thread Raw &raw) {
        raw.words[0] = aligned_bytes16(tile + 32 * unit);
        raw.words[1] = aligned_bytes16(tile + 32 * unit + 16);
    }
    static METAL_FUNC void scales(thread const Raw &, ushort, thread float2 &, thread float2 &) {}
    static METAL_FUNC float4 quarter(thread const Raw &raw, ushort, ushort, ushort k, uint halves) {
        const uint4 w = raw.words[k / 2];
        const uint a = k % 2 == 0 ? w.x : w.z, b = k % 2 == 0 ? w.y : w.w;
        return float4(as_type<float>(a << 16), as_type<float>(a & 0xffff0000u), as_type<float>(b << 16),
                      as_type<float>(b & 0xffff0000u));
    }
};
