// C[m, n] = A[m, k] * B[n, k]^T over half, 32x32 tiles of four SIMD-groups, through simdgroup_matrix.
#include "common.h"
#include <metal_simdgroup_matrix>

constant short tile = 32;

struct MatmulArgs {
    int m, n, k;
};

[[kernel, max_total_threads_per_threadgroup(128)]]
void matmul(constant MatmulArgs &args [[buffer(0)]],
            device const half *a [[buffer(1)]],
            device const half *b [[buffer(2)]],
            device float *c [[buffer(3)]],
            uint2 position [[threadgroup_position_in_grid]],
            ushort thread_index [[thread_index_in_threadgroup]],
            ushort group [[simdgroup_index_in_threadgroup]]) {
    threadgroup half a_tile[tile * tile];
    threadgroup half b_tile[tile * tile];
    threadgroup float c_tile[tile][tile];
    const int m0 = position.x * tile, n0 = position.y * tile;
    const short gm = (group & 1) * 16, gn = (group >> 1) * 16;
    simdgroup_float8x8 sum[2][2];
    for (short i = 0; i < 2; ++i)
        for (short j = 0; j < 2; ++j) sum[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (int k0 = 0; k0 < args.k; k0 += tile) {
        const short r = thread_index / 4, first = (thread_index % 4) * 8;
        for (short i = 0; i < 8; ++i) {
            const int k = k0 + first + i;
            a_tile[r * tile + first + i] = (m0 + r < args.m && k < args.k) ? a[(m0 + r) * args.k + k] : 0.0h;
            b_tile[r * tile + first + i] = (n0 + r < args.n && k < args.k) ? b[(n0 + r) * args.k + k] : 0.0h;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (short step = 0; step < tile; step += 8) {
            simdgroup_half8x8 ma[2], mb[2];
            for (short i = 0; i < 2; ++i) {
                simdgroup_load(ma[i], a_tile + (gm + i * 8) * tile + step, tile);
                simdgroup_load(mb[i], b_tile + (gn + i * 8) * tile + step, tile, ulong2(0, 0), true);
            }
            for (short i = 0; i < 2; ++i)
                for (short j = 0; j < 2; ++j) simdgroup_multiply_accumulate(sum[i][j], ma[i], mb[j], sum[i][j]);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    for (short i = 0; i < 2; ++i)
        for (short j = 0; j < 2; ++j) simdgroup_store(sum[i][j], &c_tile[gm + i * 8][gn + j * 8], tile);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (short e = thread_index; e < tile * tile; e += 128) {
        const int m = m0 + e / tile, n = n0 + e % tile;
        if (m < args.m && n < args.n) c[m * args.n + n] = c_tile[e / tile][e % tile];
    }
}
