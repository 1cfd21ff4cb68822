// What the example kernels share; included as the production kernels include theirs.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant int simd_lanes = 32;

#define FOR_LANES(i, first, count, step) for (int i = (first); i < (count); i += (step))
