// Atomics, scans, shuffles, votes, packed vectors, conversions: one small kernel each.
#include "common.h"

kernel void histogram(device const uint *x [[buffer(0)]],
                      device atomic_uint *bins [[buffer(1)]],
                      constant uint &count [[buffer(2)]],
                      uint i [[thread_position_in_grid]]) {
    if (i < count) atomic_fetch_add_explicit(&bins[x[i] % 16], 1u, memory_order_relaxed);
}

kernel void arg_max(device const float *x [[buffer(0)]],
                    device uint *best [[buffer(1)]],
                    constant uint &count [[buffer(2)]],
                    uint i [[thread_index_in_simdgroup]]) {
    float value = -INFINITY;
    uint index = 0;
    for (uint k = i; k < count; k += 32)
        if (x[k] > value) value = x[k], index = k;
    for (ushort step = 16; step > 0; step /= 2) {
        const float other = simd_shuffle_down(value, step);
        const uint other_index = simd_shuffle_down(index, step);
        if (other > value || (other == value && other_index < index)) value = other, index = other_index;
    }
    if (i == 0) best[0] = index;
}

// [32] lanes: inclusive and exclusive sums, the ballot of odd values, the value of the first lane, a rotation.
kernel void lanes(device const int *x [[buffer(0)]],
                  device int *out [[buffer(1)]],
                  ushort lane [[thread_index_in_simdgroup]]) {
    const int v = x[lane];
    out[lane] = simd_prefix_inclusive_sum(v);
    out[32 + lane] = simd_prefix_exclusive_sum(v);
    out[64 + lane] = (int)(ulong)simd_ballot(v % 2 != 0);
    out[96 + lane] = simd_broadcast_first(v);
    out[128 + lane] = simd_shuffle_rotate_down(v, 3);
    out[160 + lane] = quad_sum(v);
    out[192 + lane] = simd_any(v == 7) + 2 * simd_all(v >= 0);
}

struct Packed {
    packed_float3 position;
    float mass;
};

kernel void conversions(device const Packed *in [[buffer(0)]],
                        device float *out [[buffer(1)]],
                        uint i [[thread_position_in_grid]]) {
    const float3 p = float3(in[i].position[0], in[i].position[1], in[i].position[2]);
    const half4 h = half4(float4(p, in[i].mass));
    const uint bits = as_type<uint>(p.x) & 0xffff0000u;
    out[i * 4 + 0] = float(h.w) + select(0.0f, 1.0f, p.y > 0.5);
    out[i * 4 + 1] = as_type<float>(bits);
    out[i * 4 + 2] = float(bfloat(p.z));
    out[i * 4 + 3] = clamp(p.y, -1.0f, 1.0f) + float(vec<short, 2>(3, 4).y);
}
