// The k-quants: super_line.h and super_scale.h find the integers, this file lays them out as csrc/gguf/dequant_256.cpp
// reads them.
#include "quantize/blocks.h"
#include "quantize/super_line.h"
#include "quantize/super_scale.h"

namespace muser::quantize {

namespace {

constexpr int kValues = 256;

// Two-bit plane: each run of 128 values lies in 32 bytes, 32 values a bit pair.
void put_two_bits(uint8_t *plane, int i, int bits) {
    plane[i / 128 * 32 + i % 32] |= static_cast<uint8_t>(bits << (2 * (i % 128 / 32)));
}

// Nibble plane of Q4_K and Q5_K: each run of 64 values lies in 32 bytes, low nibbles first.
void put_four_bits(uint8_t *plane, int i, int bits) {
    plane[i / 64 * 32 + i % 32] |= static_cast<uint8_t>(bits << (4 * (i % 64 / 32)));
}

// Eight 6-bit scales and mins in 12 bytes: those of groups 0..3 whole, the upper bits of 4..7 above them.
void put_scales_and_mins(uint8_t *to, const uint8_t *scale, const uint8_t *min) {
    for (int i = 0; i < 4; ++i) {
        to[i] = static_cast<uint8_t>(scale[i] | (scale[i + 4] >> 4) << 6);
        to[i + 4] = static_cast<uint8_t>(min[i] | (min[i + 4] >> 4) << 6);
        to[i + 8] = static_cast<uint8_t>((scale[i + 4] & 0x0f) | (min[i + 4] & 0x0f) << 4);
    }
}

} // namespace

void quantize_q2_k(const float *x, uint8_t *block, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, x += kValues, block += 84) {
        const SuperLine<16> fit = fit_super_line<16>(x, 3, 15);
        std::memset(block, 0, 84);
        for (int group = 0; group < 16; ++group)
            block[group] = static_cast<uint8_t>(fit.scale[group] | fit.min[group] << 4);
        for (int i = 0; i < kValues; ++i)
            put_two_bits(block + 16, i, fit.q[i]);
        put_half(block + 80, fit.d);
        put_half(block + 82, fit.dmin);
    }
}

void quantize_q4_k(const float *x, uint8_t *block, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, x += kValues, block += 144) {
        const SuperLine<32> fit = fit_super_line<32>(x, 15, 63);
        std::memset(block, 0, 144);
        put_half(block, fit.d);
        put_half(block + 2, fit.dmin);
        put_scales_and_mins(block + 4, fit.scale, fit.min);
        for (int i = 0; i < kValues; ++i)
            put_four_bits(block + 16, i, fit.q[i]);
    }
}

void quantize_q5_k(const float *x, uint8_t *block, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, x += kValues, block += 176) {
        const SuperLine<32> fit = fit_super_line<32>(x, 31, 63);
        std::memset(block, 0, 176);
        put_half(block, fit.d);
        put_half(block + 2, fit.dmin);
        put_scales_and_mins(block + 4, fit.scale, fit.min);
        for (int i = 0; i < kValues; ++i) {
            block[16 + i % 32] |= static_cast<uint8_t>((fit.q[i] >> 4) << (i / 32));
            put_four_bits(block + 48, i, fit.q[i] & 0x0f);
        }
    }
}

// Scales have an offset of 32, q an offset of 4 whose bit is the plane of high bits.
void quantize_q3_k(const float *x, uint8_t *block, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, x += kValues, block += 110) {
        const SuperScale fit = fit_super_scale(x, 4, 32);
        std::memset(block, 0, 110);
        for (int i = 0; i < kValues; ++i) {
            const int q = fit.q[i] + 4;
            block[i % 32] |= static_cast<uint8_t>((q >> 2) << (i / 32));
            put_two_bits(block + 32, i, q & 3);
        }
        for (int group = 0; group < 16; ++group) {
            const int scale = fit.scale[group] + 32;
            block[96 + group % 8] |= static_cast<uint8_t>((scale & 0x0f) << (4 * (group / 8)));
            block[104 + group % 4] |= static_cast<uint8_t>((scale >> 4) << (2 * (group / 4)));
        }
        put_half(block + 108, fit.d);
    }
}

void quantize_q6_k(const float *x, uint8_t *block, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, x += kValues, block += 210) {
        const SuperScale fit = fit_super_scale(x, 32, 128);
        std::memset(block, 0, 210);
        for (int i = 0; i < kValues; ++i) {
            const int q = fit.q[i] + 32;
            block[i / 128 * 64 + i % 64] |= static_cast<uint8_t>((q & 0x0f) << (4 * (i % 128 / 64)));
            put_two_bits(block + 128, i, q >> 4);
        }
        std::memcpy(block + 192, fit.scale, 16);
        put_half(block + 208, fit.d);
    }
}

} // namespace muser::quantize
