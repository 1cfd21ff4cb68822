// The packed weight formats: how a tile of `lanes` output rows lies in memory, for every block type.
//
// Quantized types. A tile is a run of units; a unit holds `blocks` 32-value blocks of each lane's row, in the
// order in which a kernel reads them:
//   half vectors   `halves` a unit, each `lanes` 16-bit values: the scales, as the ScaleStore says
//   word vectors   `words` a block, each `lanes` 32-bit words, one a lane, in the planes
//                    bytes    8 words   word g, byte i: value 4g + i
//                    nibbles  4 words   word j, byte i: value 4j + i low, value 16 + 4j + i high
//                    pairs    2 words   word w, byte i, bits 2f..: value 4(4w + f) + i
//                    bits     1 word    byte i, bit g: value 4g + i
// A "group" is 4 consecutive values: what one 32-bit lane of an integer dot product takes. Every plane
// unpacks to groups with shifts and masks only.
//
// Float types. Value k of all lanes lies together: [cols][lanes].
//
// Heads of type Q8_0 are kept as kSplitQ8, in two planes of the same nibbles: the high four bits of every value plus 128,
// with the scales, of all tiles; and behind them the low four, in units without half vectors. Whoever is after the largest
// outputs alone reads the first plane, as kHighQ8, and of the second only few tiles (bounds.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "gguf/block_type.h"

// For functions of headers that are compiled for several levels: a copy of their own, left out of line, could
// be the one that the linker keeps for all of them, with instructions that an older processor lacks.
#define MUSER_INLINE inline __attribute__((always_inline))

namespace muser::cpu {

using gguf::BlockType;

// Types of packed matrices that no file has.
inline constexpr BlockType kSplitQ8 = static_cast<BlockType>(1008), kHighQ8 = static_cast<BlockType>(1009);

// The canonical arithmetic of one output element and one 32-value block, the same on every level. a: int8
// activations with float32 scale s; q: weight integers less the zero point; sums over the block are exact
// integers (below 2^24, so their float32 form is exact too); every float operation is written here:
//   scale       acc = fma(float(sum qa), d * s, acc)
//   scale_min   acc = fma(float(sum qa), d * s, acc);  acc = fma(m, s * float(sum a), acc)
//   halves      acc = fma(float(c0 * sum0 qa + c1 * sum1 qa), d * s, acc)       sum0, sum1: 16 values each
//   halves_min  as halves, then acc = fma(m0, s * float(sum0 a), acc);  acc = fma(m1, s * float(sum1 a), acc)
// K types: d is the super-block's scale times the block's integer (scale, scale_min; exact in float32) or
// the super-block's scale (halves); m = -(dmin * integer). A row starts with acc = 0, blocks ascend, the
// bias is added last.
enum class Scaling { scale, scale_min, halves, halves_min };

// Half vectors of a unit:
//   block_d    d of each block                        block_dm   d, m of each block
//   block_d16  d of each block, to which belong the scale 16 d and the minimum d
//   super_i8   d, then int8 scales, two blocks a half
//   super_cm   d, dmin, then (scale | min << 8) of each block
//   super_cc   d, then (c0 | c1 << 8) of each block, int8
//   super_cmcm d, dmin, then a byte (c | m << 4) for both halves of each block
enum class ScaleStore { block_d, block_dm, block_d16, super_i8, super_cm, super_cc, super_cmcm };

struct PackedFormat {
    int blocks; // of 32 values, in a unit
    bool bytes, nibbles, pairs, bits;
    ScaleStore store;
    Scaling scaling;
    int zero;       // subtracted from the stored unsigned integer; 0 for the signed ones
    int max;        // largest stored integer
    bool is_signed; // int8 after unpacking (Q8_0, and the IQ4 types after their table)
    bool levels;    // nibbles index the IQ4 level table
    bool split = false; // and as many words a block are in a second plane

    constexpr int words() const {
        return (bytes ? 8 : 0) + (nibbles ? 4 : 0) + (pairs ? 2 : 0) + (bits ? 1 : 0);
    }
    constexpr int halves() const { // even, so that every unit is a multiple of 4 * lanes bytes
        switch (store) {
        case ScaleStore::block_d:
        case ScaleStore::block_d16: return blocks;
        case ScaleStore::block_dm: return 2 * blocks;
        case ScaleStore::super_i8: return 6;
        default: return 10;
        }
    }
    constexpr int block_bytes(int lanes) const { return words() * 4 * lanes; }
    // The half vectors' bytes: where the blocks of a unit start.
    constexpr int halves_bytes(int lanes) const { return halves() * 2 * lanes; }
    constexpr int unit_bytes(int lanes) const { return halves_bytes(lanes) + blocks * block_bytes(lanes); }
    constexpr int low_unit_bytes(int lanes) const { return split ? blocks * block_bytes(lanes) : 0; }
};

constexpr MUSER_INLINE bool is_float_type(BlockType type) {
    return type == BlockType::F32 || type == BlockType::F16 || type == BlockType::BF16;
}

constexpr PackedFormat packed_format(BlockType type) {
    using enum ScaleStore;
    using enum Scaling;
    // blocks, bytes, nibbles, pairs, bits, store, scaling, zero, max, is_signed, levels
    if (type == kSplitQ8)
        return {2, false, true, false, false, block_d, scale, 0, 127, true, false, true};
    if (type == kHighQ8)
        return {2, false, true, false, false, block_d16, scale_min, 8, 15, false, false};
    switch (type) {
    case BlockType::Q4_0: return {2, false, true, false, false, block_d, scale, 8, 15, false, false};
    case BlockType::Q4_1: return {2, false, true, false, false, block_dm, scale_min, 0, 15, false, false};
    case BlockType::Q5_0: return {2, false, true, false, true, block_d, scale, 16, 31, false, false};
    case BlockType::Q5_1: return {2, false, true, false, true, block_dm, scale_min, 0, 31, false, false};
    case BlockType::Q8_0: return {2, true, false, false, false, block_d, scale, 0, 127, true, false};
    case BlockType::IQ4_NL: return {2, false, true, false, false, block_d, scale, 0, 127, true, true};
    case BlockType::Q2_K: return {8, false, false, true, false, super_cmcm, halves_min, 0, 3, false, false};
    case BlockType::Q3_K: return {8, false, false, true, true, super_cc, halves, 4, 7, false, false};
    case BlockType::Q4_K: return {8, false, true, false, false, super_cm, scale_min, 0, 15, false, false};
    case BlockType::Q5_K: return {8, false, true, false, true, super_cm, scale_min, 0, 31, false, false};
    case BlockType::Q6_K: return {8, false, true, true, false, super_cc, halves, 32, 63, false, false};
    case BlockType::IQ4_XS: return {8, false, true, false, false, super_i8, scale, 0, 127, true, true};
    default: return {}; // float types have no units
    }
}

constexpr MUSER_INLINE uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

// Units of one tile; of quantized types.
constexpr uint64_t packed_tile_units(BlockType type, uint64_t cols) {
    const uint64_t values = 32u * static_cast<uint64_t>(packed_format(type).blocks);
    return (cols + values - 1) / values;
}

// Bytes of one tile (of a split type's first plane), a multiple of 64.
constexpr uint64_t packed_tile_bytes(BlockType type, uint64_t cols, int lanes) {
    if (is_float_type(type))
        return round_up(cols * lanes * (type == BlockType::F32 ? 4 : 2), 64);
    return round_up(packed_tile_units(type, cols) * static_cast<uint64_t>(packed_format(type).unit_bytes(lanes)), 64);
}

// Of a split type's second plane; 0 of others.
constexpr uint64_t low_tile_bytes(BlockType type, uint64_t cols, int lanes) {
    const auto unit = static_cast<uint64_t>(packed_format(type).low_unit_bytes(lanes));
    return unit == 0 ? 0 : packed_tile_units(type, cols) * unit;
}

} // namespace muser::cpu
