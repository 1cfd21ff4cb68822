// One layer's keys and values of one session, as the kernels see them.
// Keys: [kv head][tile of 16 positions][head_dim][16], so that one vector lane is one key and a score is a
// chain over head_dim with a broadcast query. Values: [kv head][position][head_dim padded to 16]. A head's keys
// are one stream and its values another: the hardware prefetcher follows them (heads inside positions ran at a third of the speed).
// A position p lives in row p % rows; rows is a multiple of 16, so tiles are aligned to absolute positions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"

namespace muser::cpu {

inline constexpr uint32_t kTileKeys = 16;
inline constexpr uint32_t kRingMultiple = 64; // of a ring's rows: key tiles and value chunks never straddle its seam

struct PlaneView {
    std::byte *keys;
    std::byte *values;
    uint32_t rows;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t value_width; // head_dim rounded up to 16
    KvType type;

    template <class T> inline __attribute__((always_inline)) T *key_tile(uint32_t position, uint32_t head) const {
        const size_t tile = size_t{head} * (rows / kTileKeys) + position % rows / kTileKeys;
        return reinterpret_cast<T *>(keys) + tile * head_dim * kTileKeys;
    }
    template <class T> inline __attribute__((always_inline)) T *value_row(uint32_t position, uint32_t head) const {
        return reinterpret_cast<T *>(values) + (size_t{head} * rows + position % rows) * value_width;
    }
};

} // namespace muser::cpu
