// One layer's keys and values of one session, as the kernels see them.
//
// Positions come in blocks of 64. In a block each kv head has its keys, as four tiles [head_dim][16 positions],
// and then its values [64][head_dim padded to 16]. A vector lane of a tile is one key, so that a score is a chain
// over head_dim with a broadcast query. A head's part of a block is contiguous, for the hardware prefetch; the
// blocks of all layers of a session interleave (kv_planes.h), so that its memory grows at one end.
// Sixteen positions of q8_0, a tile of keys or sixteen rows of values, end with their scales: float16 [head_dim / 32][16].
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

    // T is the type of an element: uint16_t (float16), float, or int8_t.
    template <class T> inline __attribute__((always_inline)) T *key_tile(uint32_t position, uint32_t head) const {
        const uint32_t row = position % rows;
        return head_block<T>(row / kBlockKeys, head) + size_t{row % kBlockKeys / kTileKeys} * tile_size<T>(head_dim);
    }
    template <class T> inline __attribute__((always_inline)) T *value_row(uint32_t position, uint32_t head) const {
        return value_tile<T>(position, head) + size_t{position % kTileKeys} * value_width;
    }
    // The value row of the first of the position's sixteen.
    template <class T> inline __attribute__((always_inline)) T *value_tile(uint32_t position, uint32_t head) const {
        const uint32_t row = position % rows;
        return head_block<T>(row / kBlockKeys, head) + kBlockKeys / kTileKeys * tile_size<T>(head_dim) +
               size_t{row % kBlockKeys / kTileKeys} * tile_size<T>(value_width);
    }
    // Elements from one tile to the next.
    template <class T> static inline __attribute__((always_inline)) size_t tile_size(uint32_t width) {
        return kTileKeys * (size_t{width} + (sizeof(T) == 1 ? width / kKvBlock * 2 : 0));
    }
    // The scales of a tile, of keys or values: float16 [head_dim / 32][16].
    inline __attribute__((always_inline)) uint16_t *scales(int8_t *tile) const {
        return reinterpret_cast<uint16_t *>(tile + size_t{kTileKeys} * head_dim);
    }

  private:
    template <class T> inline __attribute__((always_inline)) T *head_block(uint32_t block, uint32_t head) const {
        return reinterpret_cast<T *>(data + block * block_bytes) +
               size_t{head} * (kBlockKeys / kTileKeys) * (tile_size<T>(head_dim) + tile_size<T>(value_width));
    }
};

} // namespace muser::cpu
