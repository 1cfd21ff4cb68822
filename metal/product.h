// What the products of all shapes share: which matrix a threadgroup works on, and what happens to a finished sum.
#pragma once

#include "math.h"
#include "weight.h"

// Without a loop and an index that is not constant: the loads of the arguments need not wait for each other.
METAL_FUNC uint matrix_of_tile(constant ProductArgs &args, uint tile) {
    uint m = 0;
    UNROLLED for (uint s = 1; s < 4; ++s)
        m = s < args.n_matrices && tile >= args.first_tile[s] ? s : m;
    return m;
}
METAL_FUNC uint of_matrix(uint m, constant uint (&of)[4]) { return m == 0 ? of[0] : m == 1 ? of[1] : m == 2 ? of[2] : of[3]; }

METAL_FUNC float finish(constant ProductArgs &args, uint matrix, device const float *bias, uint output, float sum) {
    if (args.biases >> matrix & 1u)
        sum += bias[output];
    sum *= args.scale;
    return args.softcap > 0.0f ? args.softcap * fixed_tanh(sum / args.softcap) : sum;
}

METAL_FUNC float activate(uint gelu, float x) { return gelu ? gelu_tanh(x) : silu(x); }

// One of four bound pointers.
template <typename P>
METAL_FUNC P choose(uint i, P a, P b, P c, P d) {
    return i == 0 ? a : i == 1 ? b : i == 2 ? c : d;
}
