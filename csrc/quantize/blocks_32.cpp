// Quantizers of the types with 32 values a block and one scale, or one scale and one min.
#include "quantize/blocks.h"
#include "quantize/fit_line.h"
#include "quantize/fit_scale.h"

namespace muser::quantize {

namespace {

constexpr int kValues = 32;

// Value i lies in the low half of byte i, value i + 16 in its high half; the fifth bits are one 32-bit word.
void put_nibbles(uint8_t *to, const uint8_t *q) {
    for (int i = 0; i < 16; ++i)
        to[i] = static_cast<uint8_t>((q[i] & 0x0f) | (q[i + 16] & 0x0f) << 4);
}

void put_fifth_bits(uint8_t *to, const uint8_t *q) {
    uint32_t bits = 0;
    for (int i = 0; i < kValues; ++i)
        bits |= static_cast<uint32_t>(q[i] >> 4 & 1) << i;
    std::memcpy(to, &bits, sizeof bits);
}

// Q4_0 and Q5_0: q in 0..2 * half - 1; the half d is written to `block`.
void fit_scaled(const float *x, uint8_t *block, int half, uint8_t *q) {
    float weight[kValues];
    importance<kValues>(x, weight);
    const uint16_t bits = bounded_half(fit_scale<kValues>(x, weight, half));
    const float d = gguf::half_to_float(bits);
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    put_half(block, bits);
    for (int i = 0; i < kValues; ++i)
        q[i] = static_cast<uint8_t>(clamped(nearest(x[i] * inverse) + half, 0.0f, 2.0f * half - 1.0f));
}

// Q4_1 and Q5_1: q in 0..top; the halves d and m are written to `block`.
void fit_shifted(const float *x, uint8_t *block, int top, uint8_t *q) {
    float weight[kValues];
    importance<kValues>(x, weight);
    const Line line = fit_line<kValues>(x, weight, top, false);
    const uint16_t bits = bounded_half(line.scale);
    const float d = gguf::half_to_float(bits), m = as_half(line.min);
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    put_half(block, bits);
    put_half(block + 2, bounded_half(line.min));
    for (int i = 0; i < kValues; ++i)
        q[i] = static_cast<uint8_t>(clamped(nearest((x[i] - m) * inverse), 0.0f, static_cast<float>(top)));
}

} // namespace

void quantize_q4_0(const float *x, uint8_t *block, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, x += kValues, block += 18) {
        uint8_t q[kValues];
        fit_scaled(x, block, 8, q);
        put_nibbles(block + 2, q);
    }
}

void quantize_q4_1(const float *x, uint8_t *block, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, x += kValues, block += 20) {
        uint8_t q[kValues];
        fit_shifted(x, block, 15, q);
        put_nibbles(block + 4, q);
    }
}

void quantize_q5_0(const float *x, uint8_t *block, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, x += kValues, block += 22) {
        uint8_t q[kValues];
        fit_scaled(x, block, 16, q);
        put_fifth_bits(block + 2, q);
        put_nibbles(block + 6, q);
    }
}

void quantize_q5_1(const float *x, uint8_t *block, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, x += kValues, block += 24) {
        uint8_t q[kValues];
        fit_shifted(x, block, 31, q);
        put_fifth_bits(block + 4, q);
        put_nibbles(block + 8, q);
    }
}

// No search: with 255 levels it gains nothing, and so the bits are those of every other writer (the `gguf` package:
// integers from the scale before it is rounded to a half, ties away from zero).
void quantize_q8_0(const float *x, uint8_t *block, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, x += kValues, block += 34) {
        float largest = 0.0f;
        for (int i = 0; i < kValues; ++i)
            largest = std::max(largest, std::fabs(x[i]));
        const float d = largest / 127.0f;
        const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
        put_half(block, float_to_half(d));
        for (int i = 0; i < kValues; ++i) {
            const float scaled = x[i] * inverse;
            const float whole = std::floor(std::fabs(scaled));
            const float rounded = whole + std::floor(2.0f * (std::fabs(scaled) - whole));
            block[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(std::copysign(rounded, scaled)));
        }
    }
}

} // namespace muser::quantize
