// Products with many rows, for prefill and verify, on 8x8 matrices of a SIMD-group. A threadgroup computes a tile of
// TN rows by 16 outputs a SIMD-group, 32 inputs at a time: weights are unpacked once into threadgroup memory, then
// every SIMD-group multiplies its outputs with all rows. Each element is one chain over the inputs in steps of
// eight, in ascending order, whatever TN and the row's place in the tile are: chunks of any size give the same bits.
// All in float32: half would overflow where Gemma's activations are large, and cost accuracy everywhere.
#pragma once

#include "product.h"

constant ushort kStep = 32;       // inputs
constant ushort kStride = 36;     // floats between rows in threadgroup memory: rows start in different banks
constant ushort kGroupOutputs = 16; // of a SIMD-group
constant ushort kMaxGroups = 4;

template <typename W, short TN>
kernel void matmul(constant ProductArgs &args [[buffer(0)]], device const float *x [[buffer(1)]],
                   device const uchar *w0 [[buffer(2)]], device const uchar *w1 [[buffer(3)]],
                   device const uchar *w2 [[buffer(4)]], device const uchar *w3 [[buffer(5)]],
                   device const float *bias0 [[buffer(6)]], device const float *bias1 [[buffer(7)]],
                   device const float *bias2 [[buffer(8)]], device const float *bias3 [[buffer(9)]],
                   device float *out0 [[buffer(10)]], device float *out1 [[buffer(11)]],
                   device float *out2 [[buffer(12)]], device float *out3 [[buffer(13)]],
                   uint2 tile [[threadgroup_position_in_grid]], ushort thread_index [[thread_index_in_threadgroup]],
                   ushort group [[simdgroup_index_in_threadgroup]], ushort n_groups [[simdgroups_per_threadgroup]]) {
    threadgroup float weights[64 * 36]; // [outputs][kStride]; at the end the results, [TN][outputs]
    threadgroup float inputs[TN * 36];
    const ushort n_threads = n_groups * 32;
    const ushort tile_outputs = n_groups * kGroupOutputs;
    const uint m = matrix_of_tile(args, tile.x);
    const uint first_output = (tile.x - args.first_tile[m]) * tile_outputs;
    const uint first_row = tile.y * TN;
    const uint outputs = args.rows[m];
    const uint runs = args.cols / 16;

    // This thread unpacks one run of 16 inputs of one output a step.
    const ushort my_output = thread_index / 2;
    const ushort my_run = thread_index % 2;
    const uint my_row = min(first_output + my_output, outputs - 1);
    device const uchar *my_weights = choose(m, w0, w1, w2, w3) + ulong(my_row) * args.row_bytes;
    const uint odd = odd_row(my_row, args.row_bytes);
    threadgroup float4 *my_place = (threadgroup float4 *)(weights + my_output * kStride + my_run * 16);

    simdgroup_float8x8 sums[TN / 8][2];
    UNROLLED for (short j = 0; j < TN / 8; ++j)
        UNROLLED for (short k = 0; k < 2; ++k)
            sums[j][k] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);

    for (uint run = 0; run < runs; run += 2) {
        float4 values[4];
        UNROLLED for (short k = 0; k < 4; ++k)
            values[k] = float4(0.0f);
        if (run + my_run < runs) {
            float scale = 1.0f;
            float low = 0.0f;
            unpack<W>(my_weights, odd, run + my_run, values, scale, low);
            UNROLLED for (short k = 0; k < 4; ++k)
                values[k] = W::kLow ? values[k] * scale - low : W::kScaled ? values[k] * scale : values[k];
        }
        UNROLLED for (short k = 0; k < 4; ++k)
            my_place[k] = values[k];
        for (ushort e = thread_index; e < TN * 8; e += n_threads) {
            const uint row = first_row + e / 8;
            const uint at = run * 16 + e % 8 * 4;
            threadgroup float4 *to = (threadgroup float4 *)(inputs + e / 8 * kStride) + e % 8;
            const bool inside = row < args.n_rows && at < args.cols;
            *to = inside ? *(device const float4 *)(x + ulong(row) * args.x_stride + at) : float4(0.0f);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (ushort k = 0; k < kStep; k += 8) {
            simdgroup_float8x8 a[TN / 8];
            simdgroup_float8x8 b[2];
            UNROLLED for (short j = 0; j < TN / 8; ++j)
                simdgroup_load(a[j], inputs + j * 8 * kStride + k, kStride);
            UNROLLED for (short i = 0; i < 2; ++i)
                simdgroup_load(b[i], weights + (group * kGroupOutputs + i * 8) * kStride + k, kStride, ulong2(0, 0), true);
            UNROLLED for (short j = 0; j < TN / 8; ++j)
                UNROLLED for (short i = 0; i < 2; ++i)
                    simdgroup_multiply_accumulate(sums[j][i], a[j], b[i], sums[j][i]);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    UNROLLED for (short j = 0; j < TN / 8; ++j)
        UNROLLED for (short i = 0; i < 2; ++i)
            simdgroup_store(sums[j][i], weights + j * 8 * tile_outputs + group * kGroupOutputs + i * 8, tile_outputs);
    threadgroup_barrier(mem_flags::mem_threadgroup);

    device const float *bias = choose(m, bias0, bias1, bias2, bias3);
    device float *out = choose(m, out0, out1, out2, out3);
    for (ushort e = thread_index; e < TN * tile_outputs; e += n_threads) {
        const uint row = first_row + e / tile_outputs;
        const uint output = first_output + e % tile_outputs;
        if (row < args.n_rows && output < outputs)
            out[ulong(row) * args.out_stride[m] + output] = finish(args, m, bias, output, weights[e]);
    }
}
