// activation(gate) * up of two matrices of the same shape, for one to four rows: the largest dispatch of a layer, and so large
// that its inputs are staged; or one matrix with as many outputs, as a head is. The SIMD-groups of a threadgroup walk the
// columns together, 512 at a time: the inputs are copied into threadgroup memory once for all of them, and their sums, for types
// with a minimum, are made on the way. 32 / kRuns lanes take a tile of one row, so that those of most types work on two rows side
// by side. As in matvec.h, an output's sum is the same chain of operations whatever N and R are. The input is in lane order, and
// so is the output of gate and up, for the product that follows.
#pragma once

#include "matvec.h"

// 512 inputs of each row in lane order; and the sums of each run's quarters. A thread, of at most 128, copies pieces: piece i is
// quarter i / 32 of run i % 32, of every row.
template <short R>
struct Staged {
    threadgroup float4 *in;
    threadgroup float *sums;
};
template <short R>
struct Piece {
    float4 of[R];
};
METAL_FUNC uint piece_place(uint i) { return i / 32 * 32 + run_place(i % 32); }

template <short R>
METAL_FUNC void load_piece(thread Piece<R> &piece, device const float4 *x, uint x_stride4, uint i) {
    UNROLLED for (short c = 0; c < R; ++c)
        piece.of[c] = x[c * x_stride4 + piece_place(i)];
}
template <typename W, short R>
METAL_FUNC void store_piece(thread const Piece<R> &piece, thread const Staged<R> &staged, uint i) {
    UNROLLED for (short c = 0; c < R; ++c) {
        staged.in[128 * c + piece_place(i)] = piece.of[c];
        if (W::kLow)
            staged.sums[128 * c + i % 32 * 4 + i / 32] = sum_of(piece.of[c]);
    }
}

// Multiplies one unit of every output with its inputs.
template <typename W, short NR, short R>
METAL_FUNC void multiply_staged(thread const typename W::Raw *raw, ushort unit, thread const Staged<R> &staged, uint halves,
                                thread float (&sums)[NR][R]) {
    float2 scale[NR];
    float2 low[NR];
    UNROLLED for (short r = 0; r < NR; ++r)
        W::scales(raw[r], unit, scale[r], low[r]);
    UNROLLED for (short part = 0; part < W::kRuns; ++part) {
        const uint run = (first_run<W>(unit) + (part == 0 ? 0 : W::kSecond)) % 32;
        float products[NR][R];
        UNROLLED for (short k = 0; k < 4; ++k) {
            float4 in[R];
            UNROLLED for (short c = 0; c < R; ++c)
                in[c] = staged.in[128 * c + 32 * k + run_place(run)];
            UNROLLED for (short r = 0; r < NR; ++r) {
                const float4 w = W::quarter(raw[r], unit, part, k, halves);
                UNROLLED for (short c = 0; c < R; ++c)
                    products[r][c] = k == 0 ? dot_of(w, in[c]) : dot_and(w, in[c], products[r][c]);
            }
        }
        UNROLLED for (short c = 0; c < R; ++c) {
            const float total = W::kLow ? sum_of(*(threadgroup const float4 *)(staged.sums + 128 * c + 4 * run)) : 0.0f;
            UNROLLED for (short r = 0; r < NR; ++r) {
                const float s = part == 0 ? scale[r].x : scale[r].y;
                sums[r][c] = W::kScaled ? fma(s, products[r][c], sums[r][c]) : sums[r][c] + products[r][c];
                if (W::kLow)
                    sums[r][c] = fma(part == 0 ? -low[r].x : -low[r].y, total, sums[r][c]);
            }
        }
    }
}

// One tile of every output, of which `runs` runs are there, all where it is `whole` (as in weight.h); x is where its inputs
// begin. The loads are on their way before the threadgroup meets. A lane whose unit is not there takes the last for nothing.
// (The lanes of a second row have the numbers of units 16 and up, for which `at` begins half a tile early: that is whole blocks
// and whole words of every type with two runs a unit.)
template <typename W, short NR, short R>
METAL_FUNC void staged_tile(thread const WeightRows<NR> &rows, uint tile, bool whole, uint runs, device const float4 *x,
                            thread const Begin &begin, ushort lane, uint thread_index, uint n_threads,
                            thread const Staged<R> &staged, thread float (&sums)[NR][R]) {
    const ushort lanes = 32 / W::kRuns, in_row = lane % lanes, units = runs / W::kRuns;
    const ushort unit = whole ? lane : lane - in_row + min(in_row, ushort(units - 1));
    Piece<R> piece;
    if (whole || thread_index % 32 < runs)
        load_piece<R>(piece, x, begin.x_stride4, thread_index);
    typename W::Raw raw[NR];
    UNROLLED for (short r = 0; r < NR; ++r)
        W::load(rows.at[r] + ulong(tile) * (W::kTileBytes / W::kRuns), rows.odd[r], unit, whole, raw[r]);
    threadgroup_barrier(mem_flags::mem_threadgroup); // the tile before is done with
    if (whole || thread_index % 32 < runs)
        store_piece<W, R>(piece, staged, thread_index);
    for (uint i = thread_index + n_threads; i < 128; i += n_threads) // of a threadgroup of fewer than 128 threads
        if (whole || i % 32 < runs) {
            load_piece<R>(piece, x, begin.x_stride4, i);
            store_piece<W, R>(piece, staged, i);
        }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float ends[NR][R];
    UNROLLED for (short r = 0; r < NR; ++r)
        UNROLLED for (short c = 0; c < R; ++c)
            ends[r][c] = sums[r][c];
    multiply_staged<W, NR, R>(raw, unit, staged, begin.halves, ends);
    UNROLLED for (short r = 0; r < NR; ++r)
        UNROLLED for (short c = 0; c < R; ++c)
            sums[r][c] = whole || in_row < units ? ends[r][c] : sums[r][c];
}

// N outputs of each matrix a row of lanes. One matrix is halves of the same size as its gate and its up, which may share rows in
// the middle, and its outputs are what they are; rows[1] is where the second half begins.
template <typename W, short N, short R>
kernel void matvec_staged(constant ProductArgs &args [[buffer(0)]], device const float *x [[buffer(1)]],
                          device const uchar *gate [[buffer(2)]], device const uchar *up [[buffer(3)]],
                          device const float *gate_bias [[buffer(4)]], device const float *up_bias [[buffer(5)]],
                          device float *out [[buffer(6)]], uint threadgroup_index [[threadgroup_position_in_grid]],
                          ushort lane [[thread_index_in_simdgroup]], ushort group [[simdgroup_index_in_threadgroup]],
                          ushort n_groups [[simdgroups_per_threadgroup]]) {
    threadgroup float4 staged_in[128 * R];
    threadgroup float4 staged_sums[W::kLow ? 32 * R : 1];
    Staged<R> staged;
    staged.in = staged_in;
    staged.sums = (threadgroup float *)staged_sums;
    Begin begin; // of the first tile of the last matrix: both have as many outputs
    load_begin(args, threadgroup_index * n_groups + group, begin);
    const ushort lanes = 32 / W::kRuns, row_of_lanes = lane / lanes;
    const uint first = (begin.tile * W::kRuns + row_of_lanes) * N, outputs = begin.outputs;
    WeightRows<2 * N> rows;
    UNROLLED for (short r = 0; r < N; ++r) { // the last may not be there: its threads still copy inputs
        const uint row = min(first + r, outputs - 1);
        set_row(rows, 2 * r, gate, row, begin.row_bytes);
        set_row(rows, 2 * r + 1, up, row, begin.row_bytes);
    }
    UNROLLED for (short r = 0; r < 2 * N; ++r)
        rows.at[r] -= row_of_lanes * (W::kTileBytes / 2);
    float sums[2 * N][R];
    UNROLLED for (short r = 0; r < 2 * N; ++r)
        UNROLLED for (short c = 0; c < R; ++c)
            sums[r][c] = 0.0f;
    const uint thread_index = group * 32 + lane, n_threads = n_groups * 32, tiles = begin.cols / 512;
    device const float4 *from = (device const float4 *)x;
    for (uint tile = 0; tile < tiles; ++tile, from += 128)
        staged_tile<W, 2 * N, R>(rows, tile, true, 32, from, begin, lane, thread_index, n_threads, staged, sums);
    if (begin.cols % 512 != 0)
        staged_tile<W, 2 * N, R>(rows, tiles, false, begin.cols % 512 / 16, from, begin, lane, thread_index, n_threads, staged,
                                  sums);
    UNROLLED for (short r = 0; r < 2 * N; ++r)
        UNROLLED for (short c = 0; c < R; ++c)
            sums[r][c] = W::kRuns == 1 ? tree_sum(sums[r][c]) : half_tree_sum(sums[r][c]);
    if (lane % lanes != 0)
        return;
    const bool one = args.n_matrices == 1;
    const uint from_second = one ? args.rows[1] : 0; // its first row
    UNROLLED for (short c = 0; c < R; ++c)
        UNROLLED for (short r = 0; r < N; ++r)
            if (first + r < outputs) {
                const uint other = from_second + first + r;
                const float a = finish(args, 0, gate_bias, first + r, sums[2 * r][c]);
                const float b = finish(args, one ? 0 : 1, up_bias, other, sums[2 * r + 1][c]);
                device float *row = out + ulong(c) * args.out_stride[0];
                row[one ? first + r : lane_order(first + r)] = one ? a : activate(args.gelu, a) * b;
                if (one && other >= outputs) // the first half has those before
                    row[other] = b;
            }
}
