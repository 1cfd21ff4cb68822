// Reference dequantizers of the types with 256 values a super-block, cut into 8 or 16 groups that have
// small integer scales of their own. The group's scale is multiplied out first and rounded to float32,
// as the gguf package does; a fast kernel that keeps d apart differs from this in the last bit.
#include "gguf/dequant_blocks.h"

namespace muser::gguf {

namespace {

constexpr int kValues = 256;

// Q4_K and Q5_K: 12 bytes hold eight 6-bit scales and eight 6-bit mins. Groups 0..3 lie in the low six
// bits of bytes 0..3 (scale) and 4..7 (min); groups 4..7 have their low four bits in bytes 8..11 (scale
// low nibble, min high nibble) and their upper two bits in the top of bytes 0..3 and 4..7.
struct ScaleMin {
    uint8_t scale, min;
};

ScaleMin scale_min(const uint8_t *packed, int group) {
    if (group < 4)
        return {static_cast<uint8_t>(packed[group] & 0x3f), static_cast<uint8_t>(packed[group + 4] & 0x3f)};
    const int g = group - 4;
    return {static_cast<uint8_t>((packed[8 + g] & 0x0f) | (packed[g] >> 6) << 4),
            static_cast<uint8_t>((packed[8 + g] >> 4) | (packed[4 + g] >> 6) << 4)};
}

// Q3_K: 12 bytes hold sixteen 6-bit scales. Bytes 0..7: low nibbles of scales 0..7, high nibbles of scales
// 8..15 are the low four bits; scale g has its upper two bits in byte 8 + g % 4 at bit 2 * (g / 4).
int q3_scale(const uint8_t *packed, int group) {
    const int low = group < 8 ? packed[group] & 0x0f : packed[group - 8] >> 4;
    const int high = packed[8 + group % 4] >> (2 * (group / 4)) & 3;
    return (low | high << 4) - 32;
}

// Two-bit plane of Q2_K and Q3_K: each run of 128 values lies in 32 bytes, 32 values a bit pair.
int two_bits(const uint8_t *qs, int i) { return qs[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3; }

// Nibble plane of Q4_K and Q5_K: each run of 64 values lies in 32 bytes, low nibbles first.
int four_bits(const uint8_t *qs, int i) { return qs[i / 64 * 32 + i % 32] >> (4 * (i % 64 / 32)) & 0x0f; }

} // namespace

// 16 x (4-bit scale, 4-bit min) | 64 bytes of 2-bit q | half d | half dmin       groups of 16
// x = (d * scale) * q - (dmin * min)
void dequantize_q2_k(const uint8_t *block, float *dst, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, block += 84, dst += kValues) {
        const uint8_t *scales = block;
        const uint8_t *qs = block + 16;
        const float d = read_half(block + 80);
        const float dmin = read_half(block + 82);
        for (int i = 0; i < kValues; ++i) {
            const uint8_t packed = scales[i / 16];
            const float scale = d * static_cast<float>(packed & 0x0f);
            const float min = dmin * static_cast<float>(packed >> 4);
            dst[i] = scale * static_cast<float>(two_bits(qs, i)) - min;
        }
    }
}

// 32 bytes of 1-bit h | 64 bytes of 2-bit l | 12 bytes scales | half d            groups of 16
// q = l - (h ? 0 : 4)      x = (d * (scale - 32)) * q
void dequantize_q3_k(const uint8_t *block, float *dst, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, block += 110, dst += kValues) {
        const uint8_t *high = block;
        const uint8_t *qs = block + 32;
        const uint8_t *scales = block + 96;
        const float d = read_half(block + 108);
        for (int i = 0; i < kValues; ++i) {
            const float scale = d * static_cast<float>(q3_scale(scales, i / 16));
            const bool bit = high[i % 32] >> (i / 32) & 1;
            dst[i] = scale * static_cast<float>(two_bits(qs, i) - (bit ? 0 : 4));
        }
    }
}

// half d | half dmin | 12 bytes scales and mins | 128 bytes of 4-bit q            groups of 32
// x = (d * scale) * q - (dmin * min)
void dequantize_q4_k(const uint8_t *block, float *dst, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, block += 144, dst += kValues) {
        const float d = read_half(block);
        const float dmin = read_half(block + 2);
        const uint8_t *scales = block + 4;
        const uint8_t *qs = block + 16;
        for (int i = 0; i < kValues; ++i) {
            const auto [group_scale, group_min] = scale_min(scales, i / 32);
            const float scale = d * static_cast<float>(group_scale);
            const float min = dmin * static_cast<float>(group_min);
            dst[i] = scale * static_cast<float>(four_bits(qs, i)) - min;
        }
    }
}

// half d | half dmin | 12 bytes scales and mins | 32 bytes of 1-bit h | 128 bytes of 4-bit l    groups of 32
// q = l + 16 * h           x = (d * scale) * q - (dmin * min)
void dequantize_q5_k(const uint8_t *block, float *dst, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, block += 176, dst += kValues) {
        const float d = read_half(block);
        const float dmin = read_half(block + 2);
        const uint8_t *scales = block + 4;
        const uint8_t *high = block + 16;
        const uint8_t *qs = block + 48;
        for (int i = 0; i < kValues; ++i) {
            const auto [group_scale, group_min] = scale_min(scales, i / 32);
            const float scale = d * static_cast<float>(group_scale);
            const float min = dmin * static_cast<float>(group_min);
            const int q = four_bits(qs, i) | (high[i % 32] >> (i / 32) & 1) << 4;
            dst[i] = scale * static_cast<float>(q) - min;
        }
    }
}

// 128 bytes of 4-bit l | 64 bytes of 2-bit h | 16 x int8 scale | half d           groups of 16
// Each run of 128 values lies in 64 bytes of l (low nibbles first) and 32 bytes of h.
// q = l + 16 * h - 32      x = (d * scale) * q
void dequantize_q6_k(const uint8_t *block, float *dst, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, block += 210, dst += kValues) {
        const uint8_t *low = block;
        const uint8_t *high = block + 128;
        const uint8_t *scales = block + 192;
        const float d = read_half(block + 208);
        for (int i = 0; i < kValues; ++i) {
            const float scale = d * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
            const int l = low[i / 128 * 64 + i % 64] >> (4 * (i % 128 / 64)) & 0x0f;
            dst[i] = scale * static_cast<float>((l | two_bits(high, i) << 4) - 32);
        }
    }
}

// half d | u16 scales_high | 4 bytes scales_low | 128 bytes nibbles q             groups of 32
// scale = low nibble g + 16 * (bits 2g, 2g+1 of scales_high)      x = (d * (scale - 32)) * level[q]
// Each group is a nibble plane of 16 bytes: values 0..15 in the low halves, 16..31 in the high halves.
void dequantize_iq4_xs(const uint8_t *block, float *dst, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, block += 136, dst += kValues) {
        const float d = read_half(block);
        const uint32_t scales_high = read_u16(block + 2);
        const uint8_t *scales_low = block + 4;
        const uint8_t *qs = block + 8;
        for (int i = 0; i < kValues; ++i) {
            const int group = i / 32;
            const int low = scales_low[group / 2] >> (4 * (group % 2)) & 0x0f;
            const int high = static_cast<int>(scales_high >> (2 * group) & 3u);
            const float scale = d * static_cast<float>((low | high << 4) - 32);
            const int q = qs[group * 16 + i % 16] >> (4 * (i % 32 / 16)) & 0x0f;
            dst[i] = scale * static_cast<float>(kIq4Levels[q]);
        }
    }
}

} // namespace muser::gguf
