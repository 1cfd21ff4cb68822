// One 32-value block of one lane, decoded from a packed unit into plain integers and scales: the readable
// meaning of the packed formats. The portable kernels and unpack_row are built on it, and the vector
// levels are tested against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "device/cpu/matmul/format.h"
#include "device/cpu/matmul/iq4_levels.h"
#include "gguf/dequant.h"

namespace muser::cpu {

struct LaneBlock {
    int8_t q[32]; // zero point subtracted
    float d;      // d, m and c as in format.h's table
    float m[2];   // scale_min uses m[0]
    int c[2];     // halves and halves_min
};

template <class T> T read_item(const std::byte *array, size_t index) {
    T value;
    std::memcpy(&value, array + index * sizeof(T), sizeof(T));
    return value;
}

// The stored integer of value k, from the lane's words of the block; those of a split type's second plane come behind.
template <BlockType type> int stored_integer(const uint32_t *words, int k) {
    constexpr PackedFormat format = packed_format(type);
    const int group = k / 4, shift = 8 * (k % 4);
    if constexpr (format.bytes)
        return static_cast<int8_t>(words[group] >> shift);
    if constexpr (format.split) {
        const auto nibble = [&](int word) { return static_cast<int>(words[word] >> (shift + 4 * (group / 4)) & 15u); };
        return 16 * nibble(group % 4) + nibble(4 + group % 4) - 128;
    }
    int value = 0;
    int word = 0, bit = 0; // where the next plane starts
    if constexpr (format.nibbles) {
        value = static_cast<int>(words[group % 4] >> (shift + 4 * (group / 4)) & 15u);
        word = 4;
        bit = 4;
    }
    if constexpr (format.pairs) {
        value |= static_cast<int>(words[word + group / 4] >> (shift + 2 * (group % 4)) & 3u) << bit;
        word += 2;
        bit += 2;
    }
    if constexpr (format.bits)
        value |= static_cast<int>(words[word] >> (shift + group) & 1u) << bit;
    return value;
}

// unit: the packed unit; block: index within it; low: the unit's part of a second plane.
template <BlockType type>
LaneBlock decode_lane_block(const std::byte *unit, int lanes, int lane, int block, const std::byte *low = nullptr) {
    constexpr PackedFormat format = packed_format(type);
    const auto half = [&](int index) { return read_item<uint16_t>(unit, index * lanes + lane); };
    const auto half_float = [&](int index) { return gguf::half_to_float(half(index)); };

    uint32_t words[format.split ? 2 * format.words() : format.words()];
    const std::byte *planes = unit + format.halves_bytes(lanes) + block * format.block_bytes(lanes);
    for (int w = 0; w < format.words(); ++w)
        words[w] = read_item<uint32_t>(planes, w * lanes + lane);
    if constexpr (format.split)
        for (int w = 0; w < format.words(); ++w)
            words[format.words() + w] = read_item<uint32_t>(low + block * format.block_bytes(lanes), w * lanes + lane);

    LaneBlock out{};
    for (int k = 0; k < 32; ++k) {
        const int stored = stored_integer<type>(words, k);
        out.q[k] = static_cast<int8_t>(format.levels ? kIq4Levels[stored & 15] : stored - format.zero);
    }
    if constexpr (format.store == ScaleStore::block_d) {
        out.d = half_float(block);
    } else if constexpr (format.store == ScaleStore::block_d16) {
        out.m[0] = half_float(block);
        out.d = 16 * out.m[0];
    } else if constexpr (format.store == ScaleStore::block_dm) {
        out.d = half_float(2 * block);
        out.m[0] = half_float(2 * block + 1);
    } else if constexpr (format.store == ScaleStore::super_i8) {
        const int scale = static_cast<int8_t>(half(1 + block / 2) >> (8 * (block % 2)));
        out.d = half_float(0) * static_cast<float>(scale);
    } else if constexpr (format.store == ScaleStore::super_cm) {
        out.d = half_float(0) * static_cast<float>(half(2 + block) & 0xff);
        out.m[0] = -(half_float(1) * static_cast<float>(half(2 + block) >> 8));
    } else if constexpr (format.store == ScaleStore::super_cc) {
        out.d = half_float(0);
        out.c[0] = static_cast<int8_t>(half(1 + block));
        out.c[1] = static_cast<int8_t>(half(1 + block) >> 8);
    } else {
        static_assert(format.store == ScaleStore::super_cmcm);
        out.d = half_float(0);
        for (int h = 0; h < 2; ++h) {
            const int packed = half(2 + block) >> (8 * h) & 0xff;
            out.c[h] = packed & 15;
            out.m[h] = -(half_float(1) * static_cast<float>(packed >> 4));
        }
    }
    return out;
}

} // namespace muser::cpu
