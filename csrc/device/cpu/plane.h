// One layer's keys and values of one session, as the kernels see them.
//
// Positions come in blocks of 64. In a block each kv head has its keys, as four tiles [head_dim][16 positions],
// and then its values [64][head_dim padded to 16]. A vector lane of a tile is one key, so that a score is a chain
// over head_dim with a broadcast query. A head's part of a block is contiguous, for the hardware prefetch; the
// blocks of all layers of a session interleave (kv_planes.h), so that its memory grows at one end.
// A position p lives in row p % rows; rows is a multiple of 64.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"

namespace muser::cpu {

inline constexpr uint32_t kTileKeys = 16;
inline constexpr uint32_t kBlockKeys = 64;

struct PlaneView {
    std::byte *data;    // of this layer in the first block
    size_t block_bytes; // from block to block
    uint32_t rows;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t value_width; // head_dim rounded up to 16
    KvType type;

    template <class T> inline __attribute__((always_inline)) T *key_tile(uint32_t position, uint32_t head) const {
        const uint32_t row = position % rows;
        return head_block<T>(row / kBlockKeys, head) + size_t{row % kBlockKeys / kTileKeys} * kTileKeys * head_dim;
    }
    template <class T> inline __attribute__((always_inline)) T *value_row(uint32_t position, uint32_t head) const {
        const uint32_t row = position % rows;
        return head_block<T>(row / kBlockKeys, head) + size_t{kBlockKeys} * head_dim + size_t{row % kBlockKeys} * value_width;
    }

  private:
    template <class T> inline __attribute__((always_inline)) T *head_block(uint32_t block, uint32_t head) const {
        return reinterpret_cast<T *>(data + block * block_bytes) + size_t{head} * kBlockKeys * (head_dim + value_width);
    }
};

} // namespace muser::cpu
