// Dispatch of the quantizers, and the types without blocks: F32, F16 and BF16.
#include "quantize/quantize.h"

#include <cmath>

#include "core/error.h"
#include "quantize/blocks.h"

namespace muser::quantize {

using gguf::BlockType;

bool can_make(BlockType type) { return type != BlockType::IQ4_NL && type != BlockType::IQ4_XS; }

void quantize(BlockType type, const float *src, std::byte *dst, size_t n_values) {
    auto *p = reinterpret_cast<uint8_t *>(dst);
    const size_t n_blocks = n_values / gguf::traits(type).elements;
    switch (type) {
    case BlockType::F32:
        if (n_values > 0)
            std::memcpy(p, src, n_values * sizeof(float));
        return;
    case BlockType::F16:
        for (size_t i = 0; i < n_values; ++i)
            put_half(p + 2 * i, float_to_half(src[i]));
        return;
    case BlockType::BF16:
        for (size_t i = 0; i < n_values; ++i)
            put_half(p + 2 * i, float_to_bfloat16(src[i]));
        return;
    case BlockType::Q4_0: return quantize_q4_0(src, p, n_blocks);
    case BlockType::Q4_1: return quantize_q4_1(src, p, n_blocks);
    case BlockType::Q5_0: return quantize_q5_0(src, p, n_blocks);
    case BlockType::Q5_1: return quantize_q5_1(src, p, n_blocks);
    case BlockType::Q8_0: return quantize_q8_0(src, p, n_blocks);
    case BlockType::Q2_K: return quantize_q2_k(src, p, n_blocks);
    case BlockType::Q3_K: return quantize_q3_k(src, p, n_blocks);
    case BlockType::Q4_K: return quantize_q4_k(src, p, n_blocks);
    case BlockType::Q5_K: return quantize_q5_k(src, p, n_blocks);
    case BlockType::Q6_K: return quantize_q6_k(src, p, n_blocks);
    case BlockType::IQ4_NL:
    case BlockType::IQ4_XS: break;
    }
    throw Error(ErrorCode::internal, "quantize: no quantizer for this block type");
}

size_t first_unfit(BlockType type, const float *values, size_t n_values) {
    if (type == BlockType::F32)
        return n_values; // nothing changes, NaN included
    const float limit = type == BlockType::BF16 ? HUGE_VALF : kLargestHalf;
    for (size_t i = 0; i < n_values; ++i)
        if (!(std::fabs(values[i]) <= limit) || std::isinf(values[i]))
            return i;
    return n_values;
}

} // namespace muser::quantize
