// The first of the largest logits of a row; NaN never wins. One threadgroup a row. The result becomes the token of the
// same row of the next pass of a greedy chain.
#include "common.h"

kernel void argmax(constant ArgmaxArgs &args [[buffer(0)]], device const float *logits [[buffer(1)]],
                   device RowInfo *next [[buffer(2)]], uint row [[threadgroup_position_in_grid]],
                   ushort thread_index [[thread_index_in_threadgroup]], ushort n_threads [[threads_per_threadgroup]],
                   ushort lane [[thread_index_in_simdgroup]], ushort group [[simdgroup_index_in_threadgroup]],
                   ushort n_groups [[simdgroups_per_threadgroup]]) {
    threadgroup float values[32];
    threadgroup uint places[32];
    device const float *x = logits + ulong(row) * args.stride;
    float best = -INFINITY;
    uint at = 0xffffffffu;
    for (uint i = thread_index; i < args.cols; i += n_threads)
        if (x[i] > best || (x[i] == best && at == 0xffffffffu)) {
            best = x[i];
            at = i;
        }
    const float group_best = simd_max(best);
    const uint group_at = simd_min(best == group_best ? at : 0xffffffffu);
    if (lane == 0) {
        values[group] = group_best;
        places[group] = group_at;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float value = lane < n_groups ? values[lane] : -INFINITY;
    const uint place = lane < n_groups ? places[lane] : 0xffffffffu;
    const float most = simd_max(value);
    const uint first = simd_min(value == most ? place : 0xffffffffu);
    if (group == 0 && lane == 0)
        next[row].token = first == 0xffffffffu ? 0 : int(first);
}
