// The arguments of the kernels, as both sides see them: kernels include this, and so does csrc/device/metal.
// Only 32-bit fields, so that the layouts agree without padding.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

// One row of a pass.
struct RowInfo {
    int32_t token;
    int32_t position;
    uint32_t session; // which of the (at most four) planes bound to the kernel
};

// Consecutive rows of one session that an attention threadgroup takes together.
struct RowTile {
    uint32_t first_row;
    uint32_t n_rows;
};

struct EmbedArgs {
    uint32_t cols;
    uint32_t row_bytes; // of the table
    uint32_t out_stride;
    uint32_t op; // 0: as it is; 1: times x; 2: RMS norm without weight, x is eps
    float x;
};

// residual += [RMS norm of] branch; normed = RMS norm of residual.
struct NormArgs {
    uint32_t cols;
    uint32_t stride;        // floats between rows of residual, branch and normed
    uint32_t has_branch;
    uint32_t has_post;      // the branch is normed (and weighted) before it is added
    uint32_t has_next;
    uint32_t in_lane_order; // of what is written to normed
    uint32_t picks_rows;    // threadgroup i reads row picked[i], and writes normed row i
    float post_eps;
    float next_eps;
};

// Up to four matrices of one type that multiply the same rows. Matrix s owns the tiles first_tile[s] ..
struct ProductArgs {
    uint32_t cols;
    uint32_t row_bytes;
    uint32_t n_rows;   // of activations
    uint32_t x_stride; // floats between rows of the input
    uint32_t n_matrices;
    uint32_t first_tile[4];
    uint32_t rows[4];       // outputs
    uint32_t out_stride[4]; // floats between rows of the output
    uint32_t biases;        // bit s: matrix s has one
    float scale;            // of the sum with its bias
    float softcap;          // 0: none
    uint32_t gelu;          // glu kernels: 1 gelu (tanh), 0 silu
    uint32_t halves;        // matvec: kHalves of weight.h
};

struct GluArgs {
    uint32_t cols;
    uint32_t stride;
    uint32_t gelu;
    uint32_t in_lane_order; // of what is written
};

// What happens to a query or key head before it is used, and where it is kept.
struct HeadArgs {
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t query_stride;
    uint32_t key_stride; // and of value
    uint32_t q_norm;     // 1: RMS norm with weight
    uint32_t k_norm;
    float norm_eps;
    uint32_t n_pairs; // rotated; 0: none
    uint32_t halves;  // pairs are (k, k + n_pairs), else (2k, 2k + 1)
    uint32_t plane_rows;
};

struct AttentionArgs {
    HeadArgs heads;
    float scale;
    uint32_t window; // 0: full
    uint32_t tile_heads;   // query heads of a threadgroup, all of one kv head
    uint32_t head_groups;  // threadgroups that cover the query heads of one kv head
    uint32_t max_splits;   // of one row's keys
    uint32_t prepares;     // 1: queries are raw, and the newest key is stored here
    uint32_t gated;        // merge: times sigmoid(gate)
    uint32_t out_stride;
    uint32_t in_lane_order;
};

struct ArgmaxArgs {
    uint32_t cols;
    uint32_t stride;
};

struct CopyArgs {
    uint32_t cols;
    uint32_t stride;
};
