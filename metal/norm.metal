// RMS norms and the residual stream, one threadgroup a row:
//   residual += branch, or += norm(branch) * post; then normed = norm(residual) * next.
// Each part is optional: a plain norm has no branch, the last block has no next norm. The two norms have their own eps.
#include "row_sum.h"

kernel void residual_norm(constant NormArgs &args [[buffer(0)]], device float *residual [[buffer(1)]],
                          device const float *branch [[buffer(2)]], device const float *post [[buffer(3)]],
                          device const float *next [[buffer(4)]], device float *normed [[buffer(5)]],
                          device const int *picked [[buffer(6)]], uint index [[threadgroup_position_in_grid]],
                          ushort thread_index [[thread_index_in_threadgroup]],
                          ushort n_threads [[threads_per_threadgroup]], ushort lane [[thread_index_in_simdgroup]],
                          ushort group [[simdgroup_index_in_threadgroup]],
                          ushort n_groups [[simdgroups_per_threadgroup]]) {
    threadgroup float partial[32];
    threadgroup float next_partial[32];
    const uint row = args.picks_rows ? uint(picked[index]) : index;
    device float *x = residual + ulong(row) * args.stride;
    device const float *y = branch + ulong(row) * args.stride;
    device float *to = normed + ulong(index) * args.stride;

    float factor = 1.0f;
    if (args.has_post) {
        float squares = 0.0f;
        for (uint i = thread_index; i < args.cols; i += n_threads)
            squares = fma(y[i], y[i], squares);
        factor = 1.0f / sqrt(row_sum(squares, partial, lane, group, n_groups) / float(args.cols) + args.post_eps);
    }
    float squares = 0.0f;
    for (uint i = thread_index; i < args.cols; i += n_threads) {
        float v = x[i];
        if (args.has_branch) {
            v += args.has_post ? y[i] * factor * post[i] : y[i];
            x[i] = v;
        }
        squares = fma(v, v, squares);
    }
    if (!args.has_next)
        return;
    factor = 1.0f / sqrt(row_sum(squares, next_partial, lane, group, n_groups) / float(args.cols) + args.next_eps);
    for (uint i = thread_index; i < args.cols; i += n_threads)
        to[args.in_lane_order ? lane_order(i) : i] = x[i] * factor * next[i];
}
