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

template <typename T>
METAL_FUNC void copy_head(device const float *x, device T *to, uint head_dim, ushort lane) {
    for (uint i = lane; i < head_dim; i += 32)
        to[i] = T(x[i]);
}

// A plane: keys [kv head][row][head_dim], then values likewise. Position p is in row p % plane_rows.
template <typename T>
METAL_FUNC device T *key_row(device T *plane, constant HeadArgs &args, uint kv_head, uint row) {
    return plane + (ulong(kv_head) * args.plane_rows + row) * args.head_dim;
}
template <typename T>
METAL_FUNC device T *value_row(device T *plane, constant HeadArgs &args, uint kv_head, uint row) {
    return key_row(plane, args, args.n_kv_heads + kv_head, row);
}
