// Reference dequantizers of the types with 32 values a block. A nibble plane stores value i (0..15) in
// the low half of byte i and value i + 16 in its high half.
#include "gguf/dequant_blocks.h"

namespace muser::gguf {

namespace {

constexpr int kValues = 32;

// Value i of a 16-byte nibble plane.
uint8_t nibble(const uint8_t *qs, int i) { return i < 16 ? qs[i] & 0x0f : qs[i - 16] >> 4; }

} // namespace

// half d | 16 bytes nibbles q             x = d * (q - 8)
void dequantize_q4_0(const uint8_t *block, float *dst, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, block += 18, dst += kValues) {
        const float d = read_half(block);
        const uint8_t *qs = block + 2;
        for (int i = 0; i < kValues; ++i)
            dst[i] = d * static_cast<float>(nibble(qs, i) - 8);
    }
}

// half d | half m | 16 bytes nibbles q    x = d * q + m
void dequantize_q4_1(const uint8_t *block, float *dst, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, block += 20, dst += kValues) {
        const float d = read_half(block);
        const float m = read_half(block + 2);
        const uint8_t *qs = block + 4;
        for (int i = 0; i < kValues; ++i)
            dst[i] = d * static_cast<float>(nibble(qs, i)) + m;
    }
}

// half d | u32 h | 16 bytes nibbles l     q = l + 16 * bit i of h     x = d * (q - 16)
void dequantize_q5_0(const uint8_t *block, float *dst, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, block += 22, dst += kValues) {
        const float d = read_half(block);
        const uint32_t high = read_u32(block + 2);
        const uint8_t *qs = block + 6;
        for (int i = 0; i < kValues; ++i) {
            const int q = nibble(qs, i) | static_cast<int>((high >> i) & 1u) << 4;
            dst[i] = d * static_cast<float>(q - 16);
        }
    }
}

// half d | half m | u32 h | 16 bytes l    q = l + 16 * bit i of h     x = d * q + m
void dequantize_q5_1(const uint8_t *block, float *dst, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, block += 24, dst += kValues) {
        const float d = read_half(block);
        const float m = read_half(block + 2);
        const uint32_t high = read_u32(block + 4);
        const uint8_t *qs = block + 8;
        for (int i = 0; i < kValues; ++i) {
            const int q = nibble(qs, i) | static_cast<int>((high >> i) & 1u) << 4;
            dst[i] = d * static_cast<float>(q) + m;
        }
    }
}

// half d | 32 x int8 q                    x = d * q
void dequantize_q8_0(const uint8_t *block, float *dst, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, block += 34, dst += kValues) {
        const float d = read_half(block);
        const uint8_t *qs = block + 2;
        for (int i = 0; i < kValues; ++i)
            dst[i] = d * static_cast<float>(static_cast<int8_t>(qs[i]));
    }
}

// half d | 16 bytes nibbles q             x = d * level[q]
void dequantize_iq4_nl(const uint8_t *block, float *dst, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, block += 18, dst += kValues) {
        const float d = read_half(block);
        const uint8_t *qs = block + 2;
        for (int i = 0; i < kValues; ++i)
            dst[i] = d * static_cast<float>(kIq4Levels[nibble(qs, i)]);
    }
}

} // namespace muser::gguf
