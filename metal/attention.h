// Attention of up to H query vectors that share one kv head: the query heads of one row at decode, those of a few
// consecutive rows at prefill. Keys and values are read once for all of them. A vector walks its visible keys in blocks
// of 128, aligned to absolute position, keeping maximum, sum and weighted values; blocks that no vector of the tile
// sees are skipped, and one that only others see changes nothing, bit for bit. So a result depends on the vector
// and its keys alone.
//
// At decode a row's blocks are split among threadgroups; into how many parts depends on the row's own position
// only, and merge.metal joins the parts in ascending order. Planes of q8_0 get their rows from store.metal at decode, too.
#pragma once

#include "heads.h"
#include "keys.h"
#include "math.h"
#include "product.h"

constant uint kChunkKeys = 8; // keys a SIMD-group scores at once: eight lanes a key, two keys a lane

METAL_FUNC float dot_onto(float4 a, float4 b, float sum) {
    return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}

// Eight neighbouring lanes' sum.
METAL_FUNC float sum8(float x) {
    x += simd_shuffle_xor(x, 4);
    x += simd_shuffle_xor(x, 2);
    return x + simd_shuffle_xor(x, 1);
}

// Threadgroup memory: H queries, and at the end H results, of head_dim; H x 128 scores; maximum, sum and factor of H.
template <typename T, short H>
kernel void attention(constant AttentionArgs &args [[buffer(0)]], device const RowInfo *rows [[buffer(1)]],
                      device const RowTile *tiles [[buffer(2)]], device const float *query [[buffer(3)]],
                      device const float *key [[buffer(4)]], device const float *value [[buffer(5)]],
                      device const float *q_norm [[buffer(6)]], device const float *k_norm [[buffer(7)]],
                      device const float2 *angles [[buffer(8)]], device T *plane0 [[buffer(9)]],
                      device T *plane1 [[buffer(10)]], device T *plane2 [[buffer(11)]], device T *plane3 [[buffer(12)]],
                      device float *parts [[buffer(13)]], device float2 *part_sums [[buffer(14)]],
                      threadgroup float *memory [[threadgroup(0)]], uint3 where [[threadgroup_position_in_grid]],
                      ushort thread_index [[thread_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]],
                      ushort group [[simdgroup_index_in_threadgroup]], ushort n_groups [[simdgroups_per_threadgroup]]) {
    const uint dim = args.heads.head_dim;
    const uint columns = dim / 4;
    threadgroup float *queries = memory;
    threadgroup float *scores = queries + H * dim;
    threadgroup float *maximum = scores + H * kBlockKeys;
    threadgroup float *total = maximum + H;
    threadgroup float *factor = total + H;

    const uint first_row = tiles[where.z].first_row;
    const uint n_rows = tiles[where.z].n_rows;
    const uint kv_head = where.y / args.head_groups;
    const uint group_heads = args.heads.n_heads / args.heads.n_kv_heads;
    const uint skipped_heads = where.y % args.head_groups * args.tile_heads;
    const uint first_head = kv_head * group_heads + skipped_heads;
    const uint tile_heads = min(args.tile_heads, group_heads - skipped_heads);
    const uint n_vectors = n_rows * tile_heads; // vector v: row v / tile_heads, head v % tile_heads
    const uint first_position = uint(rows[first_row].position);

    KeyRange keys = visible_keys(first_position, args.window);
    keys.last += n_rows - 1;
    const BlockRange blocks = blocks_of_split(keys, where.x, args.max_splits);
    if (blocks.first >= blocks.end)
        return;
    device T *plane = choose(rows[first_row].session, plane0, plane1, plane2, plane3);

    for (uint v = group; v < H; v += n_groups) {
        threadgroup float *to = queries + v * dim;
        if (v >= n_vectors) {
            for (uint i = lane; i < dim; i += 32)
                to[i] = 0.0f;
        } else {
            const uint row = first_row + v / tile_heads;
            device const float *from = query + ulong(row) * args.heads.query_stride + (first_head + v % tile_heads) * dim;
            if (args.prepares) {
                prepare_head<float>(from, to, args.heads.q_norm != 0, q_norm, angles + ulong(row) * args.heads.n_pairs,
                                    args.heads, lane);
            } else {
                for (uint i = lane; i < dim; i += 32)
                    to[i] = from[i];
            }
        }
        if (lane == 0) {
            maximum[v] = kHidden;
            total[v] = 0.0f;
        }
    }
    if (args.prepares && group == 0 && blocks.end * kBlockKeys > keys.last) { // the split with the newest key stores it
        const uint row = first_row;
        const uint at = keys.last % args.heads.plane_rows;
        const ulong from = ulong(row) * args.heads.key_stride + kv_head * dim;
        prepare_head<T>(key + from, key_row(plane, args.heads, kv_head, at), args.heads.k_norm != 0, k_norm,
                        angles + ulong(row) * args.heads.n_pairs, args.heads, lane);
        copy_head(value + from, value_row(plane, args.heads, kv_head, at), dim, lane);
    }
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);

    // Weighted values: a thread has one column of four, and every key_lanes-th four keys.
    const uint column = thread_index % columns;
    const uint key_lane = thread_index / columns;
    const uint key_lanes = n_groups * 32 / columns;
    float4 out[H];
    for (short v = 0; v < H; ++v)
        out[v] = float4(0.0f);

    for (uint block = blocks.first; block < blocks.end; ++block) {
        const uint base = block * kBlockKeys;
        const uint from = max(keys.first, base) - base; // in the block
        const uint to = min(keys.last - base, kBlockKeys - 1);
        const uint base_row = base % args.heads.plane_rows;

        for (uint chunk = group * kChunkKeys; chunk < kBlockKeys; chunk += n_groups * kChunkKeys) {
            if (chunk > to || chunk + kChunkKeys - 1 < from)
                continue;
            const uint k0 = chunk + lane / 8;
            const uint k1 = k0 + kChunkKeys / 2;
            uint row0 = base_row + clamp(k0, from, to);
            uint row1 = base_row + clamp(k1, from, to);
            row0 -= row0 >= args.heads.plane_rows ? args.heads.plane_rows : 0;
            row1 -= row1 >= args.heads.plane_rows ? args.heads.plane_rows : 0;
            const PlaneRow<T> key0 = plane_row(plane, args.heads, kv_head, row0);
            const PlaneRow<T> key1 = plane_row(plane, args.heads, kv_head, row1);
            float sum0[H];
            float sum1[H];
            for (short v = 0; v < H; ++v)
                sum0[v] = sum1[v] = 0.0f;
            for (uint c = lane % 8; c < columns; c += 8) {
                const float4 a = load4(key0, c);
                const float4 b = load4(key1, c);
                for (short v = 0; v < H; ++v) {
                    const float4 q = ((threadgroup const float4 *)queries)[v * columns + c];
                    sum0[v] = dot_onto(q, a, sum0[v]);
                    sum1[v] = dot_onto(q, b, sum1[v]);
                }
            }
            for (short v = 0; v < H; ++v) {
                const float s0 = sum8(sum0[v]) * args.scale;
                const float s1 = sum8(sum1[v]) * args.scale;
                if (lane % 8 == uint(v % 8)) {
                    scores[v * kBlockKeys + k0] = s0;
                    scores[v * kBlockKeys + k1] = s1;
                }
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        for (uint v = group; v < H; v += n_groups) {
            const KeyRange seen = visible_keys(first_position + v / tile_heads, args.window);
            float s[4];
            float top = kHidden;
            for (uint k = 0; k < 4; ++k) {
                const uint at = lane + 32 * k;
                const bool visible = v < n_vectors && base + at >= seen.first && base + at <= seen.last;
                s[k] = visible ? scores[v * kBlockKeys + at] : kHidden;
                top = max(top, s[k]);
            }
            const float old = maximum[v];
            const float most = max(old, simd_max(top));
            const bool nothing = most == kHidden; // yet
            float sum = 0.0f;
            for (uint k = 0; k < 4; ++k) {
                const float weight = nothing ? 0.0f : fixed_exp(s[k] - most);
                scores[v * kBlockKeys + lane + 32 * k] = weight;
                sum += weight;
            }
            const float shrink = nothing ? 1.0f : fixed_exp(old - most);
            sum = tree_sum(sum);
            simdgroup_barrier(mem_flags::mem_threadgroup);
            if (lane == 0) {
                maximum[v] = most;
                total[v] = fma(total[v], shrink, sum);
                factor[v] = shrink;
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);

        for (short v = 0; v < H; ++v)
            out[v] = out[v] * factor[v];
        if (key_lane < key_lanes) {
            for (uint four = from / 4 + (key_lane + key_lanes - from / 4 % key_lanes) % key_lanes; 4 * four <= to; four += key_lanes) {
                float4 values[4];
                for (uint k = 0; k < 4; ++k) {
                    uint row = base_row + clamp(4 * four + k, from, to); // others have weight 0
                    row -= row >= args.heads.plane_rows ? args.heads.plane_rows : 0;
                    values[k] = load4(plane_row(plane, args.heads, args.heads.n_kv_heads + kv_head, row), column);
                }
                for (short v = 0; v < H; ++v) {
                    const float4 w = ((threadgroup const float4 *)scores)[v * (kBlockKeys / 4) + four];
                    out[v] = multiply_add(float4(w.x), values[0], out[v]);
                    out[v] = multiply_add(float4(w.y), values[1], out[v]);
                    out[v] = multiply_add(float4(w.z), values[2], out[v]);
                    out[v] = multiply_add(float4(w.w), values[3], out[v]);
                }
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    // The key lanes' parts, in order, where the queries were.
    threadgroup float4 *results = (threadgroup float4 *)queries;
    for (uint turn = 0; turn < key_lanes; ++turn) {
        if (key_lane == turn)
            for (short v = 0; v < H; ++v)
                results[v * columns + column] = turn == 0 ? out[v] : results[v * columns + column] + out[v];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    for (uint v = group; v < n_vectors; v += n_groups) {
        const uint row = first_row + v / tile_heads;
        const ulong slot = (ulong(row) * args.heads.n_heads + first_head + v % tile_heads) * args.max_splits + where.x;
        if (sizeof(T) == 1) // the values of q8_0 are rotated, and so is their sum
            rotate_head(queries + v * dim, dim, lane);
        for (uint i = lane; i < dim; i += 32)
            parts[slot * dim + i] = queries[v * dim + i];
        if (lane == 0)
            part_sums[slot] = float2(maximum[v], total[v]);
    }
}
