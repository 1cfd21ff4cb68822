// The one attention algorithm, for decode, prefill and verify alike. A query walks the keys it can see in
// segments of 256 positions, aligned to absolute position. Within a segment: all scores (chain over head_dim,
// times scale), their maximum m, weights e^(s - m), their sum l (sixteen partial sums by position % 16, one
// tree), and o = sum of weight * value, key by key in ascending order. Segments merge in ascending order.
// So a result depends on the query and its visible keys alone: not on chunking, neighbours or threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cpu/plane.h"

namespace muser::cpu {

inline constexpr uint32_t kSegmentKeys = 256;
inline constexpr int kMaxTaskQueries = 64; // query vectors (row x head) of one task
inline constexpr int kMaxTaskRows = 16;
inline constexpr int kMaxTaskHeads = 16;
inline constexpr uint32_t kMaxHeadDim = 512;
inline constexpr size_t kGroupFloats = 4096; // of key tiles converted at once: half of a first-level cache
inline constexpr int kMinGroupTiles = 2, kMaxGroupTiles = 8;
inline constexpr int kValueChunk = 16;           // least value rows of one step: half of a first-level cache when wide
inline constexpr size_t kValueFloats = 32 * 64; // of value rows converted at once, where kValueChunk rows are fewer

// Softmax over a part of the keys, not yet divided: max, sum and weighted values of one query vector.
struct SoftmaxState {
    float *max;
    float *sum;
    float *out; // [value width]
};

struct PositionRange { // first > last: empty
    int64_t first;
    int64_t last;
};

// What one query at `position` sees of everything, and of one segment.
inline __attribute__((always_inline)) PositionRange visible_keys(int32_t position, uint32_t window) {
    const int64_t first = window == 0 || int64_t{position} < window ? 0 : int64_t{position} - window + 1;
    return {first, position};
}

// Working memory of one task; each thread owns one.
struct AttentionScratch {
    float *scores; // [kMaxTaskQueries][kSegmentKeys]
    float *keys;   // [kMaxGroupTiles][head_dim][16] up to kGroupFloats, but at least kMinGroupTiles; converted
    float *values; // [kValueChunk][value width] and at least kValueFloats, converted
};

// Some query rows of one session against one segment of one kv head.
// Query vector v = row * n_heads + head.
struct SegmentTask {
    PlaneView plane;
    uint32_t kv_head;
    int64_t segment;
    float scale;
    int n_rows;
    int n_heads;
    PositionRange ranges[kMaxTaskRows];      // visible keys within the segment; none may be empty
    const float *queries[kMaxTaskQueries];   // [head_dim]
    SoftmaxState results[kMaxTaskQueries];
    AttentionScratch scratch;
    const void *next = nullptr; // keys that this thread reads afterwards, if known: fetched towards the end
};

} // namespace muser::cpu
