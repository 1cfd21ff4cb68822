// RMS norm, a row a threadgroup: a reduction over lanes, then over SIMD-groups.
#include "common.h"

constant bool weighted [[function_constant(0)]];
constant float gain [[function_constant(1)]];
constant bool has_gain = is_function_constant_defined(gain);
constant float scale_by = has_gain ? gain : 1.0f;

struct NormArgs {
    int width;
    float epsilon;
};

kernel void rms_norm(constant NormArgs &args [[buffer(0)]],
                     device const float *x [[buffer(1)]],
                     device const float *weight [[buffer(2), function_constant(weighted)]],
                     device float *y [[buffer(3)]],
                     threadgroup float *partial [[threadgroup(0)]],
                     uint row [[threadgroup_position_in_grid]],
                     ushort thread_index [[thread_position_in_threadgroup]],
                     ushort threads [[threads_per_threadgroup]],
                     ushort lane [[thread_index_in_simdgroup]],
                     ushort group [[simdgroup_index_in_threadgroup]]) {
    device const float4 *in = (device const float4 *)(x + row * args.width);
    device float4 *out = (device float4 *)(y + row * args.width);
    device const float4 *w = (device const float4 *)weight;
    if (group == 0) partial[lane] = 0;
    float sum = 0;
    FOR_LANES(i, thread_index, args.width / 4, threads) sum += dot(in[i], in[i]);
    sum = simd_sum(sum);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) partial[group] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = simd_sum(partial[lane]);
    const float scale = scale_by * rsqrt(sum / args.width + args.epsilon);
    FOR_LANES(i, thread_index, args.width / 4, threads) out[i] = weighted ? in[i] * scale * w[i] : in[i] * scale;
}
