// Queries prepared in place, keys prepared and stored, values stored: all heads of all rows of a pass in one
// dispatch, a SIMD-group a head. (Decode does this inside its attention: attention.h.)
#include "heads.h"
#include "product.h"

template <typename T>
kernel void prepare_and_store(constant HeadArgs &args [[buffer(0)]], device const RowInfo *rows [[buffer(1)]],
                              device float *query [[buffer(2)]], device float *key [[buffer(3)]],
                              device const float *value [[buffer(4)]], device const float *q_norm [[buffer(5)]],
                              device const float *k_norm [[buffer(6)]], device const float2 *angles [[buffer(7)]],
                              device T *plane0 [[buffer(8)]], device T *plane1 [[buffer(9)]],
                              device T *plane2 [[buffer(10)]], device T *plane3 [[buffer(11)]],
                              uint2 threadgroup_index [[threadgroup_position_in_grid]],
                              ushort lane [[thread_index_in_simdgroup]], ushort group [[simdgroup_index_in_threadgroup]],
                              ushort n_groups [[simdgroups_per_threadgroup]]) {
    const uint head = threadgroup_index.x * n_groups + group;
    const uint row = threadgroup_index.y;
    const uint n_heads = args.n_heads;
    const uint n_kv = args.n_kv_heads;
    if (head >= n_heads + 2 * n_kv)
        return;
    device const float2 *angle = angles + ulong(row) * args.n_pairs;
    if (head < n_heads) {
        device float *q = query + ulong(row) * args.query_stride + head * args.head_dim;
        prepare_head<float>(q, q, args.q_norm != 0, q_norm, angle, args, lane);
        if (sizeof(T) == 1) { // the keys that it meets are rotated
            simdgroup_barrier(mem_flags::mem_device);
            rotate_head(q, args.head_dim, lane);
        }
        return;
    }
    device T *plane = choose(rows[row].session, plane0, plane1, plane2, plane3);
    const uint at = uint(rows[row].position) % args.plane_rows;
    const uint kv = (head - n_heads) % n_kv;
    const ulong from = ulong(row) * args.key_stride + kv * args.head_dim;
    if (head < n_heads + n_kv)
        store_key(key + from, plane, kv, at, k_norm, angle, args, lane);
    else
        store_value(value + from, plane, kv, at, args, lane);
}

template [[host_name("store_f16")]] kernel decltype(prepare_and_store<half>) prepare_and_store<half>;
template [[host_name("store_f32")]] kernel decltype(prepare_and_store<float>) prepare_and_store<float>;
template [[host_name("store_q8_0")]] kernel decltype(prepare_and_store<char>) prepare_and_store<char>;
