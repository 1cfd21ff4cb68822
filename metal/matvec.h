// Products with one to four rows, for decode. A SIMD-group computes NR outputs for all R rows: each lane takes every
// 32nd unit of inputs (weight.h), unpacks a weight unit once, and multiplies it with those of all rows. Whatever NR and R
// are, one row's sum is the same chain of operations: a result does not depend on its company. The input is in lane
// order. NR is even: 2, or 4 where that was measured to be faster, see docs/metal.md.
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

// What has to be known before a weight can be loaded. The arguments are loaded all at once, in front of a barrier that
// orders nothing else: one that chooses between two others waits for memory once more.
struct Begin {
    uint cols, row_bytes, x_stride4, halves; // of the arguments
    uint matrix, tile, outputs;              // which matrix, which of its tiles, how many outputs it has
};
METAL_FUNC void load_begin(constant ProductArgs &args, uint tile, thread Begin &begin) {
    uint first_tile[4];
    uint rows[4];
    UNROLLED for (short m = 0; m < 4; ++m) {
        first_tile[m] = args.first_tile[m];
        rows[m] = args.rows[m];
    }
    const uint n_matrices = args.n_matrices;
    begin.cols = args.cols;
    begin.row_bytes = args.row_bytes;
    begin.x_stride4 = args.x_stride / 4;
    begin.halves = args.halves;
    simdgroup_barrier(mem_flags::mem_none);
    begin.matrix = 0;
    begin.tile = tile;
    begin.outputs = rows[0];
    UNROLLED for (short m = 1; m < 4; ++m) {
        const bool later = uint(m) < n_matrices && tile >= first_tile[m];
        begin.matrix = later ? uint(m) : begin.matrix;
        begin.tile = later ? tile - first_tile[m] : begin.tile;
        begin.outputs = later ? rows[m] : begin.outputs;
    }
}

// Where a unit's inputs begin: those of its first run, and how far from there those of its second. (One pointer: a second
// takes two registers more.)
struct UnitInputs {
    device const float4 *first;
    int step;
};
template <typename W>
METAL_FUNC void set_inputs(thread UnitInputs &inputs, device const float *x, uint tile, uint unit) {
    const uint run = first_run<W>(unit);
    device const float4 *from = (device const float4 *)x + tile * (W::kRuns * 128) + run / 32 * 128;
    inputs.first = from + run_place(run % 32);
    inputs.step = int(run_place((run + W::kSecond) % 32)) - int(run_place(run % 32));
}

// Multiplies one unit of every output with its inputs. kAhead quarters are loaded at once, the first with the weights, in
// front of such a barrier: left alone, a compiler may put every load in front of its use, and the lane waits for memory
// many times. `whole` as in weight.h.
template <typename W, short NR, short R>
METAL_FUNC void multiply_unit(thread const WeightRows<NR> &rows, uint tile, ushort unit, bool whole,
                              thread const UnitInputs &inputs, uint x_stride4, uint halves, thread float (&sums)[NR][R]) {
    enum { kAhead = R <= 2 || W::kRuns == 1 ? 4 : 2 };
    typename W::Raw raw[NR];
    UNROLLED for (short r = 0; r < NR; ++r)
        W::load(rows.at[r] + ulong(tile) * W::kTileBytes, rows.odd[r], unit, whole, raw[r]);
    float2 scale[NR];
    float2 low[NR];
    UNROLLED for (short part = 0; part < W::kRuns; ++part) {
        float products[NR][R];
        float total[R];
        UNROLLED for (short batch = 0; batch < 4; batch += kAhead) {
            float4 in[kAhead][R];
            UNROLLED for (short k = 0; k < kAhead; ++k)
                UNROLLED for (short c = 0; c < R; ++c)
                    in[k][c] = (part == 0 ? inputs.first : inputs.first + inputs.step)[c * x_stride4 + 32 * (batch + k)];
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

// The end of a row, `units` that are less than a tile. Each half of the SIMD-group takes every second output: of a tile that
// is at most half full as many lanes are at work as of a full one. A lane without a unit takes the last for nothing, so that
// all meet at the barrier.
template <typename W, short NR, short R>
METAL_FUNC void multiply_rest(thread const WeightRows<NR> &rows, uint tile, uint units, device const float *x,
                              thread const Begin &begin, ushort lane, thread float (&sums)[NR][R]) {
    const bool odd = lane >= 16;
    WeightRows<NR / 2> mine;
    UNROLLED for (short r = 0; r < NR / 2; ++r) {
        mine.at[r] = rows.at[2 * r] + (odd ? rows.at[2 * r + 1] - rows.at[2 * r] : 0);
        mine.odd[r] = odd ? rows.odd[2 * r + 1] : rows.odd[2 * r];
    }
    for (uint at = 0; at < units; at += 16) {
        const uint unit = at + lane % 16, taken = min(unit, units - 1);
        float ends[NR / 2][R];
        UNROLLED for (short r = 0; r < NR / 2; ++r)
            UNROLLED for (short c = 0; c < R; ++c)
                ends[r][c] = odd ? sums[2 * r + 1][c] : sums[2 * r][c];
        UnitInputs from;
        set_inputs<W>(from, x, tile, taken);
        multiply_unit<W, NR / 2, R>(mine, tile, taken, false, from, begin.x_stride4, begin.halves, ends);
        UNROLLED for (short r = 0; r < NR / 2; ++r)
            UNROLLED for (short c = 0; c < R; ++c) {
                sums[2 * r][c] = unit < units && !odd ? ends[r][c] : sums[2 * r][c];
                sums[2 * r + 1][c] = unit < units && odd ? ends[r][c] : sums[2 * r + 1][c];
            }
    }
}

// Every S-th tile of the rows, from `share` on.
template <typename W, short NR, short R, short S>
METAL_FUNC void row_products(thread const WeightRows<NR> &rows, thread const Begin &begin, device const float *x, ushort lane,
                             ushort share, thread float (&sums)[NR][R]) {
    UNROLLED for (short r = 0; r < NR; ++r)
        UNROLLED for (short c = 0; c < R; ++c)
            sums[r][c] = 0.0f;
    const uint units = begin.cols / 16 / W::kRuns, tiles = units / 32;
    UnitInputs from;
    set_inputs<W>(from, x, share, lane);
    for (uint tile = share; tile < tiles; tile += S, from.first += S * W::kRuns * 128)
        multiply_unit<W, NR, R>(rows, tile, lane, true, from, begin.x_stride4, begin.halves, sums);
    if (units % 32 != 0 && tiles % S == share)
        multiply_rest<W, NR, R>(rows, tiles, units % 32, x, begin, lane, sums);
    UNROLLED for (short r = 0; r < NR; ++r)
        UNROLLED for (short c = 0; c < R; ++c)
            sums[r][c] = tree_sum(sums[r][c]);
}

// The sums of the second of two SIMD-groups go to the first.
template <short NR, short R>
METAL_FUNC void add_share(threadgroup float *parts, bool takes_part, bool second, thread float (&sums)[NR][R]) {
    if (takes_part && second)
        UNROLLED for (short r = 0; r < NR; ++r)
            UNROLLED for (short c = 0; c < R; ++c)
                parts[r * R + c] = sums[r][c];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (takes_part && !second)
        UNROLLED for (short r = 0; r < NR; ++r)
            UNROLLED for (short c = 0; c < R; ++c)
                sums[r][c] += parts[r * R + c];
}

// A tile is NR outputs of one of up to four matrices. Of a matrix with long rows and few outputs S = 2 neighbouring SIMD-groups
// divide each tile's columns between them, every second 32 units, and the first adds up: twice as many SIMD-groups, each at work
// for half as long, so that all of the GPU ends at nearly the same time.
template <typename W, short NR, short R, short S>
kernel void matvec(constant ProductArgs &args [[buffer(0)]], device const float *x [[buffer(1)]],
                   device const uchar *w0 [[buffer(2)]], device const uchar *w1 [[buffer(3)]],
                   device const uchar *w2 [[buffer(4)]], device const uchar *w3 [[buffer(5)]],
                   device const float *bias0 [[buffer(6)]], device const float *bias1 [[buffer(7)]],
                   device const float *bias2 [[buffer(8)]], device const float *bias3 [[buffer(9)]],
                   device float *out0 [[buffer(10)]], device float *out1 [[buffer(11)]],
                   device float *out2 [[buffer(12)]], device float *out3 [[buffer(13)]],
                   uint threadgroup_index [[threadgroup_position_in_grid]], ushort lane [[thread_index_in_simdgroup]],
                   ushort group [[simdgroup_index_in_threadgroup]], ushort n_groups [[simdgroups_per_threadgroup]]) {
    threadgroup float parts[S == 1 ? 1 : 16 * NR * R];
    Begin begin;
    load_begin(args, (threadgroup_index * n_groups + group) / S, begin);
    const uint m = begin.matrix, first = begin.tile * NR, outputs = begin.outputs;
    const ushort share = group % S;
    if (S == 1 && first >= outputs)
        return;
    WeightRows<NR> rows;
    UNROLLED for (short r = 0; r < NR; ++r) // the last tile may be short
        set_row(rows, r, choose(m, w0, w1, w2, w3), min(first + r, outputs - 1), begin.row_bytes);
    float sums[NR][R];
    row_products<W, NR, R, S>(rows, begin, x, lane, share, sums);
    if (S == 2)
        add_share<NR, R>(parts + group / 2 * (NR * R), lane == 0, share == 1, sums);
    if (lane != 0 || share != 0)
        return;
    const uint out_stride = of_matrix(m, args.out_stride);
    device const float *bias = choose(m, bias0, bias1, bias2, bias3);
    device float *out = choose(m, out0, out1, out2, out3);
    UNROLLED for (short c = 0; c < R; ++c)
        UNROLLED for (short r = 0; r < NR; ++r)
            if (first + r < outputs)
                out[ulong(c) * out_stride + first + r] = finish(args, m, bias, first + r, sums[r][c]);
}
