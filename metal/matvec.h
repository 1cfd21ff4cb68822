// Products with one to four rows, for decode. A SIMD-group computes NR outputs for all R rows: each lane takes every
// 32nd run of 16 inputs, unpacks a weight run once, and multiplies it with the runs of all rows. Whatever R is, one
// row's sum is the same chain of operations: a result does not depend on its company. The input is in lane order.
#pragma once

#include "product.h"

template <typename W, short NR, short R>
METAL_FUNC void row_products(device const uchar *weights, uint row_bytes, uint first, uint outputs, uint runs,
                             device const float *x, uint x_stride, ushort lane, thread float (&sums)[NR][R]) {
    device const uchar *rows[NR];
    for (short r = 0; r < NR; ++r) {
        rows[r] = weights + ulong(min(first + r, outputs - 1)) * row_bytes; // the last group may be short
        for (short c = 0; c < R; ++c)
            sums[r][c] = 0.0f;
    }
    for (uint i = lane; i < runs; i += 32) {
        float4 in[R][4];
        float total[R];
        for (short c = 0; c < R; ++c) {
            device const float4 *from = (device const float4 *)(x + ulong(c) * x_stride) + i / 32 * 128 + lane;
            for (short k = 0; k < 4; ++k)
                in[c][k] = from[32 * k];
            total[c] = W::kLow ? sum_of((in[c][0] + in[c][1]) + (in[c][2] + in[c][3])) : 0.0f;
        }
        for (short r = 0; r < NR; ++r) {
            float4 w[4];
            float scale = 1.0f;
            float low = 0.0f;
            W::unpack(rows[r], i, w, scale, low);
            for (short c = 0; c < R; ++c) {
                float4 parts = w[0] * in[c][0];
                for (short k = 1; k < 4; ++k)
                    parts = multiply_add(w[k], in[c][k], parts);
                const float product = sum_of(parts);
                sums[r][c] = W::kScaled ? fma(scale, product, sums[r][c]) : sums[r][c] + product;
                if (W::kLow)
                    sums[r][c] = fma(-low, total[c], sums[r][c]);
            }
        }
    }
    for (short r = 0; r < NR; ++r)
        for (short c = 0; c < R; ++c)
            sums[r][c] = tree_sum(sums[r][c]);
}

// A tile is NR outputs of one of up to four matrices.
template <typename W, short NR, short R>
kernel void matvec(constant ProductArgs &args [[buffer(0)]], device const float *x [[buffer(1)]],
                   device const uchar *w0 [[buffer(2)]], device const uchar *w1 [[buffer(3)]],
                   device const uchar *w2 [[buffer(4)]], device const uchar *w3 [[buffer(5)]],
                   device const float *bias0 [[buffer(6)]], device const float *bias1 [[buffer(7)]],
                   device const float *bias2 [[buffer(8)]], device const float *bias3 [[buffer(9)]],
                   device float *out0 [[buffer(10)]], device float *out1 [[buffer(11)]],
                   device float *out2 [[buffer(12)]], device float *out3 [[buffer(13)]],
                   uint threadgroup_index [[threadgroup_position_in_grid]], ushort lane [[thread_index_in_simdgroup]],
                   ushort group [[simdgroup_index_in_threadgroup]], ushort n_groups [[simdgroups_per_threadgroup]]) {
    const uint tile = threadgroup_index * n_groups + group;
    const uint m = matrix_of_tile(args, tile);
    const uint first = (tile - args.first_tile[m]) * NR;
    const uint outputs = args.rows[m];
    if (first >= outputs)
        return;
    float sums[NR][R];
    row_products<W, NR, R>(choose(m, w0, w1, w2, w3), args.row_bytes, first, outputs, args.cols / 16, x, args.x_stride,
                           lane, sums);
    if (lane != 0)
        return;
    device const float *bias = choose(m, bias0, bias1, bias2, bias3);
    device float *out = choose(m, out0, out1, out2, out3);
    for (short c = 0; c < R; ++c)
        for (short r = 0; r < NR; ++r)
            if (first + r < outputs)
                out[ulong(c) * args.out_stride[m] + first + r] = finish(args, m, bias, first + r, sums[r][c]);
}

// activation(gate) * up of two matrices of the same shape, in lane order for the product that follows.
template <typename W, short NR, short R>
kernel void matvec_glu(constant ProductArgs &args [[buffer(0)]], device const float *x [[buffer(1)]],
                       device const uchar *gate [[buffer(2)]], device const uchar *up [[buffer(3)]],
                       device const float *gate_bias [[buffer(4)]], device const float *up_bias [[buffer(5)]],
                       device float *out [[buffer(6)]], uint threadgroup_index [[threadgroup_position_in_grid]],
                       ushort lane [[thread_index_in_simdgroup]], ushort group [[simdgroup_index_in_threadgroup]],
                       ushort n_groups [[simdgroups_per_threadgroup]]) {
    const uint first = (threadgroup_index * n_groups + group) * NR;
    const uint outputs = args.rows[0];
    if (first >= outputs)
        return;
    float gates[NR][R];
    float ups[NR][R];
    row_products<W, NR, R>(gate, args.row_bytes, first, outputs, args.cols / 16, x, args.x_stride, lane, gates);
    row_products<W, NR, R>(up, args.row_bytes, first, outputs, args.cols / 16, x, args.x_stride, lane, ups);
    if (lane != 0)
        return;
    for (short c = 0; c < R; ++c)
        for (short r = 0; r < NR; ++r)
            if (first + r < outputs) {
                const float a = finish(args, 0, gate_bias, first + r, gates[r][c]);
                const float b = finish(args, 1, up_bias, first + r, ups[r][c]);
                out[ulong(c) * args.out_stride[0] + lane_order(first + r)] = activate(args.gelu, a) * b;
            }
}
