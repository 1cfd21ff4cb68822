// Dispatch of the reference dequantizers, and the unquantized types F32, F16 and BF16.
#include "gguf/dequant.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "gguf/dequant_blocks.h"

namespace muser::gguf {

// IEEE binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. Every value is exact in float32; the
// payload of a NaN is kept.
float half_to_float(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0) { // zero and subnormals: fraction * 2^-24
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
    }
    const uint32_t wide_exponent = exponent == 0x1f ? 0xffu : exponent + (127 - 15);
    return std::bit_cast<float>(sign | wide_exponent << 23 | fraction << 13);
}

// The upper half of a float32.
float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

void dequantize(BlockType type, const std::byte *src, float *dst, size_t n_values) {
    const auto *p = reinterpret_cast<const uint8_t *>(src);
    const size_t n_blocks = n_values / traits(type).elements;
    switch (type) {
    case BlockType::F32:
        if (n_values > 0)
            std::memcpy(dst, p, n_values * sizeof(float));
        return;
    case BlockType::F16:
        for (size_t i = 0; i < n_values; ++i)
            dst[i] = half_to_float(read_u16(p + 2 * i));
        return;
    case BlockType::BF16:
        for (size_t i = 0; i < n_values; ++i)
            dst[i] = bfloat16_to_float(read_u16(p + 2 * i));
        return;
    case BlockType::Q4_0: return dequantize_q4_0(p, dst, n_blocks);
    case BlockType::Q4_1: return dequantize_q4_1(p, dst, n_blocks);
    case BlockType::Q5_0: return dequantize_q5_0(p, dst, n_blocks);
    case BlockType::Q5_1: return dequantize_q5_1(p, dst, n_blocks);
    case BlockType::Q8_0: return dequantize_q8_0(p, dst, n_blocks);
    case BlockType::IQ4_NL: return dequantize_iq4_nl(p, dst, n_blocks);
    case BlockType::Q2_K: return dequantize_q2_k(p, dst, n_blocks);
    case BlockType::Q3_K: return dequantize_q3_k(p, dst, n_blocks);
    case BlockType::Q4_K: return dequantize_q4_k(p, dst, n_blocks);
    case BlockType::Q5_K: return dequantize_q5_k(p, dst, n_blocks);
    case BlockType::Q6_K: return dequantize_q6_k(p, dst, n_blocks);
    case BlockType::IQ4_XS: return dequantize_iq4_xs(p, dst, n_blocks);
    }
    throw Error(ErrorCode::internal, "dequantize: unknown block type");
}

} // namespace muser::gguf
