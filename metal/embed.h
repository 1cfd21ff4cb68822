// Token rows of a table to the residual; what the model does to them besides: nothing, a factor, or an RMS norm.
// One threadgroup a row.
#pragma once

#include "row_sum.h"
#include "weight.h"

template <typename W>
kernel void embed(constant EmbedArgs &args [[buffer(0)]], device const RowInfo *rows [[buffer(1)]],
                  device const uchar *table [[buffer(2)]], device float *residual [[buffer(3)]],
                  uint row [[threadgroup_position_in_grid]], ushort thread_index [[thread_index_in_threadgroup]],
                  ushort n_threads [[threads_per_threadgroup]], ushort lane [[thread_index_in_simdgroup]],
                  ushort group [[simdgroup_index_in_threadgroup]], ushort n_groups [[simdgroups_per_threadgroup]]) {
    threadgroup float partial[32];
    const uint token = uint(rows[row].token);
    device const uchar *from = table + ulong(token) * args.row_bytes;
    device float4 *to = (device float4 *)(residual + ulong(row) * args.out_stride);
    const float factor = args.op == 1 ? args.x : 1.0f;
    float squares = 0.0f;
    for (uint i = thread_index; i < args.cols / 16; i += n_threads) {
        float4 values[4];
        float scale = 1.0f;
        float low = 0.0f;
        unpack<W>(from, odd_row(token, args.row_bytes), i, values, scale, low);
        for (short k = 0; k < 4; ++k) {
            const float4 v = W::kLow ? values[k] * scale - low : W::kScaled ? values[k] * scale : values[k];
            squares = fma(v.x, v.x, fma(v.y, v.y, fma(v.z, v.z, fma(v.w, v.w, squares))));
            to[4 * i + k] = v * factor;
        }
    }
    if (args.op != 2)
        return;
    squares = row_sum(squares, partial, lane, group, n_groups);
    const float norm = 1.0f / sqrt(squares / float(args.cols) + args.x);
    for (uint i = thread_index; i < args.cols / 16; i += n_threads)
        for (short k = 0; k < 4; ++k)
            to[4 * i + k] = to[4 * i + k] * norm;
}
