// The first of the largest logits of a row. One threadgroup a row. The result becomes the token of the same row of the
// next pass of a greedy chain, and what the host reads: -1 there for a row with a NaN or nothing but -inf, whose next
// token is any.
#include "common.h"

kernel void argmax(constant ArgmaxArgs &args [[buffer(0)]], device const float *logits [[buffer(1)]],
                   device RowInfo *next [[buffer(2)]], device int *chosen [[buffer(3)]], uint row [[threadgroup_position_in_grid]],
                   ushort thread_index [[thread_index_in_threadgroup]], ushort n_threads [[threads_per_threadgroup]],
                   ushort lane [[thread_index_in_simdgroup]], ushort group [[simdgroup_index_in_threadgroup]],
                   ushort n_groups [[simdgroups_per_threadgroup]]) {
    threadgroup float values[32];
    threadgroup uint places[32];
    threadgroup uint nans[32];
    device const float *x = logits + ulong(row) * args.stride;
    float best = -INFINITY;
    uint at = 0xffffffffu;
    uint nan = 0;
    for (uint i = thread_index; i < args.cols; i += n_threads) {
        nan |= (as_type<uint>(x[i]) & 0x7fffffffu) > 0x7f800000u; // fast math knows no NaN
        if (x[i] > best) {
            best = x[i];
            at = i;
        }
    }
    const float group_best = simd_max(best);
    const uint group_at = simd_min(best == group_best ? at : 0xffffffffu);
    const uint group_nan = simd_max(nan);
    if (lane == 0) {
        values[group] = group_best;
        places[group] = group_at;
        nans[group] = group_nan;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float value = lane < n_groups ? values[lane] : -INFINITY;
    const uint place = lane < n_groups ? places[lane] : 0xffffffffu;
    const float most = simd_max(value);
    const uint first = simd_min(value == most ? place : 0xffffffffu);
    const uint any_nan = simd_max(lane < n_groups ? nans[lane] : 0u);
    if (group == 0 && lane == 0) {
        next[row].token = first == 0xffffffffu ? 0 : int(first);
        chosen[row] = first == 0xffffffffu || any_nan != 0 ? -1 : int(first);
    }
}
