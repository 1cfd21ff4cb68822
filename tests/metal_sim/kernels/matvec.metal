// A matrix of 32-value int8 blocks times one to four vectors: a SIMD-group a matrix row, blocks unpacked once for all.
#include "common.h"

struct Block {
    half scale;
    char values[32];
};
struct MatvecArgs {
    int rows;
    int blocks; // a row
};

template <typename B, int Vectors>
kernel void matvec(constant MatvecArgs &args [[buffer(0)]],
                   device const B *matrix [[buffer(1)]],
                   device const float *x [[buffer(2)]],
                   device float *y [[buffer(3)]],
                   uint threadgroup_index [[threadgroup_position_in_grid]],
                   ushort lane [[thread_index_in_simdgroup]],
                   ushort group [[simdgroup_index_in_threadgroup]],
                   ushort groups [[simdgroups_per_threadgroup]]) {
    const int row = threadgroup_index * groups + group;
    if (row >= args.rows) return;
    float sum[Vectors] = {};
    const short part = lane % 4;
    FOR_LANES(b, lane / 4, args.blocks, simd_lanes / 4) {
        device const B &block = matrix[row * args.blocks + b];
        device const char *q = block.values + part * 8;
        const float4 low = float4(q[0], q[1], q[2], q[3]);
        const float4 high = float4(q[4], q[5], q[6], q[7]);
        const float scale = block.scale;
        for (short v = 0; v < Vectors; ++v) {
            device const float4 *xv = (device const float4 *)(x + (v * args.blocks + b) * 32 + part * 8);
            sum[v] += scale * (dot(low, xv[0]) + dot(high, xv[1]));
        }
    }
    for (short v = 0; v < Vectors; ++v) {
        const float total = simd_sum(sum[v]);
        if (lane == 0) y[v * args.rows + row] = total;
    }
}

#define INSTANTIATE(N) \
    template [[host_name("matvec_x" #N)]] [[kernel]] decltype(matvec<Block, N>) matvec<Block, N>;
INSTANTIATE(1)
INSTANTIATE(2)
INSTANTIATE(4)
