// Joins the parts of a row's attention in ascending order, divides, and applies the output gate where there is one.
// A SIMD-group a head of a row.
#include "keys.h"
#include "math.h"

kernel void merge_attention(constant AttentionArgs &args [[buffer(0)]], device const RowInfo *rows [[buffer(1)]],
                            device const float *parts [[buffer(2)]], device const float2 *part_sums [[buffer(3)]],
                            device const float *gate [[buffer(4)]], device float *attention [[buffer(5)]],
                            uint2 threadgroup_index [[threadgroup_position_in_grid]],
                            ushort lane [[thread_index_in_simdgroup]], ushort group [[simdgroup_index_in_threadgroup]],
                            ushort n_groups [[simdgroups_per_threadgroup]]) {
    const uint head = threadgroup_index.x * n_groups + group;
    const uint row = threadgroup_index.y;
    const uint dim = args.heads.head_dim;
    if (head >= args.heads.n_heads)
        return;
    const KeyRange keys = visible_keys(uint(rows[row].position), args.window);
    const ulong slot = (ulong(row) * args.heads.n_heads + head) * args.max_splits;
    uint n_splits = 1;
    if (args.max_splits > 1)
        while (n_splits < args.max_splits && blocks_of_split(keys, n_splits, args.max_splits).first < keys.last / kBlockKeys + 1)
            ++n_splits;
    float most = kHidden;
    for (uint s = 0; s < n_splits; ++s)
        most = max(most, part_sums[slot + s].x);
    float total = 0.0f;
    for (uint s = 0; s < n_splits; ++s)
        total = fma(part_sums[slot + s].y, fixed_exp(part_sums[slot + s].x - most), total);
    const float inverse = 1.0f / total;
    for (uint i = lane; i < dim; i += 32) {
        float sum = 0.0f;
        for (uint s = 0; s < n_splits; ++s)
            sum = fma(parts[(slot + s) * dim + i], fixed_exp(part_sums[slot + s].x - most), sum);
        sum *= inverse;
        const uint at = head * dim + i;
        if (args.gated)
            sum *= sigmoid(gate[ulong(row) * args.heads.query_stride + at]);
        attention[ulong(row) * args.out_stride + (args.in_lane_order ? lane_order(at) : at)] = sum;
    }
}
