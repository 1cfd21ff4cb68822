// One query, key or value head of one row, by one SIMD-group: RMS norm with weight, then rotation; and where the
// planes keep keys and values.
#pragma once

#include "common.h"

// Writes the prepared head to `to` (T is its element type). Each lane owns whole pairs, so `to` may be `x` itself.
// `angles` is (cos, sin) of every pair at this row's position.
template <typename T, typename P>
METAL_FUNC void prepare_head(device const float *x, P to, bool has_norm, device const float *norm, device const float2 *angles,
                             constant HeadArgs &args, ushort lane) {
    const uint n_pairs = args.head_dim / 2;
    const uint n_rotated = args.n_pairs;
    const bool halves = args.halves != 0;
    float factor = 1.0f;
    if (has_norm) {
        float squares = 0.0f;
        for (uint i = lane; i < args.head_dim; i += 32)
            squares = fma(x[i], x[i], squares);
        factor = 1.0f / sqrt(tree_sum(squares) / float(args.head_dim) + args.norm_eps);
        simdgroup_barrier(mem_flags::mem_device); // all have read what some will overwrite
    }
    for (uint p = lane; p < n_pairs; p += 32) {
        const bool rotates = p < n_rotated;
        const uint i = rotates && halves ? p : 2 * p;
        const uint j = rotates && halves ? p + n_rotated : 2 * p + 1;
        float a = x[i];
        float b = x[j];
        if (has_norm) {
            a = a * factor * norm[i];
            b = b * factor * norm[j];
        }
        if (rotates) {
            const float2 angle = angles[p];
            const float turned = a * angle.x - b * angle.y;
            b = a * angle.y + b * angle.x;
            a = turned;
        }
        to[i] = T(a);
        to[j] = T(b);
    }
}

constant uint kQuantBlock = 32; // values with a scale of their own: one of every lane
constant uint kMaxBlocks = 16;  // of a head

// The rotation of q8_0 (csrc/device/device.h) of a head of n blocks, its own inverse: lane l holds the values l, l + 32, ..
// Sums and differences of lanes whose index differs in one bit, then of blocks, then one factor.
METAL_FUNC void rotate_values(thread float *x, uint n, ushort lane) {
    for (ushort step = 1; step < 32; step *= 2)
        for (uint k = 0; k < n; ++k) {
            const float other = simd_shuffle_xor(x[k], step);
            x[k] = (lane & step) != 0 ? other - x[k] : x[k] + other;
        }
    const uint together = n & (~n + 1); // the largest power of two that divides n
    for (uint step = 1; step < together; step *= 2)
        for (uint k = 0; k < n; ++k)
            if ((k & step) == 0) {
                const float a = x[k];
                const float b = x[k + step];
                x[k] = a + b;
                x[k + step] = a - b;
            }
    const float factor = 1.0f / sqrt(float(together * kQuantBlock));
    for (uint k = 0; k < n; ++k)
        x[k] *= factor;
}

// A head where it lies, in memory of any kind.
template <typename P>
METAL_FUNC void rotate_head(P head, uint head_dim, ushort lane) {
    float x[kMaxBlocks];
    for (uint k = 0; k < head_dim / kQuantBlock; ++k)
        x[k] = head[kQuantBlock * k + lane];
    rotate_values(x, head_dim / kQuantBlock, lane);
    for (uint k = 0; k < head_dim / kQuantBlock; ++k)
        head[kQuantBlock * k + lane] = x[k];
}

// Rotates a head and rounds it. Where a block has a NaN or an infinity its scale is one, and its products NaN.
METAL_FUNC void quantize_head(device const float *head, device char *to, device half *scales, uint head_dim, ushort lane) {
    float x[kMaxBlocks];
    for (uint k = 0; k < head_dim / kQuantBlock; ++k)
        x[k] = head[kQuantBlock * k + lane];
    rotate_values(x, head_dim / kQuantBlock, lane);
    for (uint k = 0; k < head_dim / kQuantBlock; ++k) {
        // As integers magnitudes order like the floats, with infinity and NaN on top.
        const uint top = simd_max(as_type<uint>(x[k]) & 0x7fffffffu);
        const half scale = half(as_type<float>(top) / 127.0f);
        const float s = float(scale);
        const bool counts = s > 0.0f && (as_type<uint>(s) & 0x7fffffffu) < 0x7f800000u;
        to[kQuantBlock * k + lane] = counts ? char(clamp(rint(x[k] * (1.0f / s)), -127.0f, 127.0f)) : char(0);
        if (lane == 0)
            scales[k] = scale;
    }
}

template <typename T>
METAL_FUNC void copy_head(device const float *x, device T *to, uint head_dim, ushort lane) {
    for (uint i = lane; i < head_dim; i += 32)
        to[i] = T(x[i]);
}

// A plane: keys [kv head][row][head_dim], then values likewise. Position p is in row p % plane_rows. Of q8_0 these are
// int8 (T is char), and the scales, half [kv head][row][head_dim / 32], keys' and then values', follow.
template <typename T>
METAL_FUNC device T *key_row(device T *plane, constant HeadArgs &args, uint kv_head, uint row) {
    return plane + (ulong(kv_head) * args.plane_rows + row) * args.head_dim;
}
template <typename T>
METAL_FUNC device T *value_row(device T *plane, constant HeadArgs &args, uint kv_head, uint row) {
    return key_row(plane, args, args.n_kv_heads + kv_head, row);
}
METAL_FUNC device half *key_scales(device char *plane, constant HeadArgs &args, uint kv_head, uint row) {
    device half *scales = (device half *)(plane + 2 * ulong(args.n_kv_heads) * args.plane_rows * args.head_dim);
    return scales + (ulong(kv_head) * args.plane_rows + row) * (args.head_dim / kQuantBlock);
}

// A row as attention reads it, four values at a time.
template <typename T>
struct PlaneRow {
    device const T *values;
};
template <>
struct PlaneRow<char> {
    device const char *values;
    device const half *scales;
};
// head: a kv head of keys, or n_kv_heads more: of values.
template <typename T>
METAL_FUNC PlaneRow<T> plane_row(device T *plane, constant HeadArgs &args, uint head, uint row) {
    PlaneRow<T> found;
    found.values = key_row(plane, args, head, row);
    return found;
}
METAL_FUNC PlaneRow<char> plane_row(device char *plane, constant HeadArgs &args, uint head, uint row) {
    PlaneRow<char> found;
    found.values = key_row(plane, args, head, row);
    found.scales = key_scales(plane, args, head, row);
    return found;
}
template <typename T>
METAL_FUNC float4 load4(PlaneRow<T> row, uint i) {
    return float4(((device const vec<T, 4> *)row.values)[i]);
}
METAL_FUNC float4 load4(PlaneRow<char> row, uint i) {
    return float4(((device const char4 *)row.values)[i]) * float(row.scales[i / (kQuantBlock / 4)]);
}

// A row's key, prepared and stored, and its value. The raw key may be overwritten.
template <typename T>
METAL_FUNC void store_key(device float *key, device T *plane, uint kv_head, uint row, device const float *norm,
                          device const float2 *angles, constant HeadArgs &args, ushort lane) {
    prepare_head<T>(key, key_row(plane, args, kv_head, row), args.k_norm != 0, norm, angles, args, lane);
}
METAL_FUNC void store_key(device float *key, device char *plane, uint kv_head, uint row, device const float *norm,
                          device const float2 *angles, constant HeadArgs &args, ushort lane) {
    prepare_head<float>(key, key, args.k_norm != 0, norm, angles, args, lane);
    simdgroup_barrier(mem_flags::mem_device);
    quantize_head(key, key_row(plane, args, kv_head, row), key_scales(plane, args, kv_head, row), args.head_dim, lane);
}
template <typename T>
METAL_FUNC void store_value(device const float *value, device T *plane, uint kv_head, uint row, constant HeadArgs &args,
                            ushort lane) {
    copy_head(value, value_row(plane, args, kv_head, row), args.head_dim, lane);
}
METAL_FUNC void store_value(device const float *value, device char *plane, uint kv_head, uint row, constant HeadArgs &args,
                            ushort lane) {
    quantize_head(value, value_row(plane, args, kv_head, row), key_scales(plane, args, args.n_kv_heads + kv_head, row),
                  args.head_dim, lane);
}
