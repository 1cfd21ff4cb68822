// Decoding one lane's block of a packed unit, value by value.
#include "device/cpu/matmul/lane_block.h"

#include <cstring>

#include "device/cpu/matmul/iq4_levels.h"
#include "gguf/dequant.h"

namespace muser::cpu {

namespace {

// The words and halves of one lane in one unit.
struct Lane {
    const PackedFormat &format;
    const std::byte *unit;
    int lanes;
    int lane;

    uint32_t word(int block, int index) const {
        uint32_t value;
        const int vector = block * format.words() + index;
        std::memcpy(&value, unit + format.halves_bytes(lanes) + (vector * lanes + lane) * 4, sizeof value);
        return value;
    }
    uint16_t half(int index) const {
        uint16_t value;
        std::memcpy(&value, unit + (index * lanes + lane) * 2, sizeof value);
        return value;
    }
    float half_float(int index) const { return gguf::half_to_float(half(index)); }
};

int stored_value(const Lane &lane, int block, int k) {
    const PackedFormat &format = lane.format;
    const int group = k / 4, shift = 8 * (k % 4);
    const auto byte_of = [&](int index) { return static_cast<int>(lane.word(block, index) >> shift & 0xffu); };
    if (format.bytes)
        return static_cast<int8_t>(byte_of(group));
    int value = 0, index = 0, bit = 0;
    if (format.nibbles) {
        value = byte_of(group % 4) >> (4 * (group / 4)) & 15;
        index = 4;
        bit = 4;
    }
    if (format.pairs) {
        value |= (byte_of(index + group / 4) >> (2 * (group % 4)) & 3) << bit;
        index += 2;
        bit += 2;
    }
    if (format.bits)
        value |= (byte_of(index) >> group & 1) << bit;
    return format.levels ? kIq4Levels[value] : value - format.zero;
}

} // namespace

LaneBlock decode_lane_block(const PackedFormat &format, const std::byte *unit, int lanes, int lane_index, int block) {
    const Lane lane{format, unit, lanes, lane_index};
    LaneBlock out{};
    for (int k = 0; k < 32; ++k)
        out.q[k] = static_cast<int8_t>(stored_value(lane, block, k));
    switch (format.store) {
    case ScaleStore::block_d: out.d = lane.half_float(block); break;
    case ScaleStore::block_dm:
        out.d = lane.half_float(2 * block);
        out.m[0] = lane.half_float(2 * block + 1);
        break;
    case ScaleStore::super_i8: {
        const int scale = static_cast<int8_t>(lane.half(1 + block / 2) >> (8 * (block % 2)));
        out.d = lane.half_float(0) * static_cast<float>(scale);
        break;
    }
    case ScaleStore::super_cm: {
        const int packed = lane.half(2 + block);
        out.d = lane.half_float(0) * static_cast<float>(packed & 0xff);
        out.m[0] = -(lane.half_float(1) * static_cast<float>(packed >> 8));
        break;
    }
    case ScaleStore::super_cc:
        out.d = lane.half_float(0);
        out.c[0] = static_cast<int8_t>(lane.half(1 + block));
        out.c[1] = static_cast<int8_t>(lane.half(1 + block) >> 8);
        break;
    case ScaleStore::super_cmcm:
        out.d = lane.half_float(0);
        for (int h = 0; h < 2; ++h) {
            const int packed = lane.half(2 + block) >> (8 * h) & 0xff;
            out.c[h] = packed & 15;
            out.m[h] = -(lane.half_float(1) * static_cast<float>(packed >> 4));
        }
        break;
    }
    return out;
}

} // namespace muser::cpu
