// A sum over a whole threadgroup, in every thread.
#pragma once

#include "common.h"

// `partial` has room for 32 floats and may be used again after the next threadgroup barrier.
METAL_FUNC float row_sum(float x, threadgroup float *partial, ushort lane, ushort group, ushort n_groups) {
    x = tree_sum(x);
    if (lane == 0)
        partial[group] = x;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return tree_sum(lane < n_groups ? partial[lane] : 0.0f);
}
