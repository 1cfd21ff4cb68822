// Products with one to four rows, for decode. A SIMD-group computes NR outputs for all R rows: each lane takes every
// 32nd unit of inputs (weight.h), unpacks a weight unit once, and multiplies it with those of all rows. Whatever NR and R
// are, one row's sum is the same chain of operations: a result does not depend on its company. The input is in lane
// order. NR is 2: measured, see docs/metal.md.
#pragma once

#include "product.h"

template <short NR>
struct WeightRows {
    device const uchar *at[NR];
    uint odd[NR];
};
template <short NR>
METAL_FUNC void set_row(thread WeightRows<NR> &rows, short r, device const uchar *matrix, uint row, uint row_bytes) {
    rows.at[r] = matrix + ulong(row) * row_bytes;
    rows.odd[r] = odd_row(row, row_bytes);
}

// Multiplies one unit of every output with the input, of which `x` is the first quarter of the unit's first run, of row 0;
// `x_second` of its second. kAhead quarters are loaded at once, the first with the weights, in front of a barrier that
// orders nothing else: left alone, a compiler may put every load in front of its use, and the lane waits for memory many
// times. FENCED is false where some lanes have no unit left.
template <typename W, short NR, short R, bool FENCED>
METAL_FUNC void multiply_unit(thread const WeightRows<NR> &rows, uint tile, ushort unit, device const float4 *x,
                              device const float4 *x_second, uint x_stride4, uint halves, thread float (&sums)[NR][R]) {
    enum { kAhead = R <= 2 || W::kRuns == 1 ? 4 : 2 };
    typename W::Raw raw[NR];
    UNROLLED for (short r = 0; r < NR; ++r)
        W::load(rows.at[r] + ulong(tile) * W::kTileBytes, rows.odd[r], unit, raw[r]);
    float2 scale[NR];
    float2 low[NR];
    UNROLLED for (short part = 0; part < W::kRuns; ++part) {
        float products[NR][R];
        float total[R];
        UNROLLED for (short batch = 0; batch < 4; batch += kAhead) {
            float4 in[kAhead][R];
            UNROLLED for (short k = 0; k < kAhead; ++k)
                UNROLLED for (short c = 0; c < R; ++c)
                    in[k][c] = (part == 0 ? x : x_second)[c * x_stride4 + 32 * (batch + k)];
            if (FENCED)
                simdgroup_barrier(mem_flags::mem_none);
            if (part == 0 && batch == 0)
                UNROLLED for (short r = 0; r < NR; ++r)
                    W::scales(raw[r], unit, scale[r], low[r]);
            UNROLLED for (short k = 0; k < kAhead; ++k) {
                const bool first = batch + k == 0;
                if (W::kLow)
                    UNROLLED for (short c = 0; c < R; ++c)
                        total[c] = first ? sum_of(in[k][c]) : total[c] + sum_of(in[k][c]);
                UNROLLED for (short r = 0; r < NR; ++r) {
                    const float4 w = W::quarter(raw[r], unit, part, batch + k, halves);
                    UNROLLED for (short c = 0; c < R; ++c)
                        products[r][c] = first ? dot_of(w, in[k][c]) : dot_and(w, in[k][c], products[r][c]);
                }
            }
        }
        UNROLLED for (short r = 0; r < NR; ++r)
            UNROLLED for (short c = 0; c < R; ++c) {
                const float s = part == 0 ? scale[r].x : scale[r].y;
                sums[r][c] = W::kScaled ? fma(s, products[r][c], sums[r][c]) : sums[r][c] + products[r][c];
                if (W::kLow)
                    sums[r][c] = fma(part == 0 ? -low[r].x : -low[r].y, total[c], sums[r][c]);
            }
    }
}

template <typename W, short NR, short R>
METAL_FUNC void row_products(thread const WeightRows<NR> &rows, constant ProductArgs &args, device const float *x, ushort lane,
                             thread float (&sums)[NR][R]) {
    UNROLLED for (short r = 0; r < NR; ++r)
        UNROLLED for (short c = 0; c < R; ++c)
            sums[r][c] = 0.0f;
    const uint units = args.cols / 16 / W::kRuns, tiles = units / 32, tile_x = W::kRuns * 128; // float4
    const uint x_stride4 = args.x_stride / 4, halves = args.halves;
    const uint run = first_run<W>(lane);
    device const float4 *from = (device const float4 *)x + run / 32 * 128 + run_place(run % 32);
    device const float4 *from_second = (device const float4 *)x + run / 32 * 128 + run_place((run + W::kSecond) % 32);
    for (uint tile = 0; tile < tiles; ++tile, from += tile_x, from_second += tile_x)
        multiply_unit<W, NR, R, true>(rows, tile, lane, from, from_second, x_stride4, halves, sums);
    if (lane < units % 32)
        multiply_unit<W, NR, R, false>(rows, tiles, lane, from, from_second, x_stride4, halves, sums);
    UNROLLED for (short r = 0; r < NR; ++r)
        UNROLLED for (short c = 0; c < R; ++c)
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
    const uint first = (tile - of_matrix(m, args.first_tile)) * NR;
    const uint outputs = of_matrix(m, args.rows);
    if (first >= outputs)
        return;
    WeightRows<NR> rows;
    UNROLLED for (short r = 0; r < NR; ++r) // the last tile may be short
        set_row(rows, r, choose(m, w0, w1, w2, w3), min(first + r, outputs - 1), args.row_bytes);
    float sums[NR][R];
    row_products<W, NR, R>(rows, args, x, lane, sums);
    if (lane != 0)
        return;
    const uint out_stride = of_matrix(m, args.out_stride);
    device const float *bias = choose(m, bias0, bias1, bias2, bias3);
    device float *out = choose(m, out0, out1, out2, out3);
    UNROLLED for (short c = 0; c < R; ++c)
        UNROLLED for (short r = 0; r < NR; ++r)
            if (first + r < outputs)
                out[ulong(c) * out_stride + first + r] = finish(args, m, bias, first + r, sums[r][c]);
}

// activation(gate) * up of two matrices of the same shape, in lane order for the product that follows. NR rows of each.
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
    WeightRows<2 * NR> rows;
    UNROLLED for (short r = 0; r < NR; ++r) {
        set_row(rows, r, gate, min(first + r, outputs - 1), args.row_bytes);
        set_row(rows, NR + r, up, min(first + r, outputs - 1), args.row_bytes);
    }
    float sums[2 * NR][R];
    row_products<W, 2 * NR, R>(rows, args, x, lane, sums);
    if (lane != 0)
        return;
    UNROLLED for (short c = 0; c < R; ++c)
        UNROLLED for (short r = 0; r < NR; ++r)
            if (first + r < outputs) {
                const float a = finish(args, 0, gate_bias, first + r, sums[r][c]);
                const float b = finish(args, 1, up_bias, first + r, sums[NR + r][c]);
                out[ulong(c) * args.out_stride[0] + lane_order(first + r)] = activate(args.gelu, a) * b;
            }
}
