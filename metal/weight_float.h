// Weights that are floating-point numbers in the file.
#pragma once

#include "weight.h"

struct F32 {
    enum { kScaled = 0, kLow = 0 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &, thread float &) {
        device const float4 *p = (device const float4 *)(row + 64 * ulong(i));
        for (short k = 0; k < 4; ++k)
            values[k] = p[k];
    }
};

struct F16 {
    enum { kScaled = 0, kLow = 0 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &, thread float &) {
        device const half4 *p = (device const half4 *)(row + 32 * ulong(i));
        for (short k = 0; k < 4; ++k)
            values[k] = float4(p[k]);
    }
};

// The upper half of a float32. Not `bfloat`, which the oldest supported systems do not have.
struct BF16 {
    enum { kScaled = 0, kLow = 0 };
    static METAL_FUNC void unpack(device const uchar *row, uint i, thread float4 *values, thread float &, thread float &) {
        device const uint4 *p = (device const uint4 *)(row + 32 * ulong(i));
        for (short k = 0; k < 2; ++k) {
            const uint4 w = p[k];
            values[2 * k] = float4(as_type<float>(w.x << 16), as_type<float>(w.x & 0xffff0000u), as_type<float>(w.y << 16),
                                   as_type<float>(w.y & 0xffff0000u));
            values[2 * k + 1] = float4(as_type<float>(w.z << 16), as_type<float>(w.z & 0xffff0000u),
                                       as_type<float>(w.w << 16), as_type<float>(w.w & 0xffff0000u));
        }
    }
};
