// From a block type known at run time to code for that type.
#pragma once

#include "device/cpu/matmul/format.h"

namespace muser::cpu {

// Out of line, since this header is compiled for every level and an Error's own code must not be.
[[noreturn]] void throw_not_quantized(BlockType type);

// Calls f.template operator()<type>() for a quantized type.
template <class Function> auto with_quantized_type(BlockType type, Function &&f) {
    if (type == kSplitQ8)
        return f.template operator()<kSplitQ8>();
    switch (type) {
    case BlockType::Q4_0: return f.template operator()<BlockType::Q4_0>();
    case BlockType::Q4_1: return f.template operator()<BlockType::Q4_1>();
    case BlockType::Q5_0: return f.template operator()<BlockType::Q5_0>();
    case BlockType::Q5_1: return f.template operator()<BlockType::Q5_1>();
    case BlockType::Q8_0: return f.template operator()<BlockType::Q8_0>();
    case BlockType::Q2_K: return f.template operator()<BlockType::Q2_K>();
    case BlockType::Q3_K: return f.template operator()<BlockType::Q3_K>();
    case BlockType::Q4_K: return f.template operator()<BlockType::Q4_K>();
    case BlockType::Q5_K: return f.template operator()<BlockType::Q5_K>();
    case BlockType::Q6_K: return f.template operator()<BlockType::Q6_K>();
    case BlockType::IQ4_NL: return f.template operator()<BlockType::IQ4_NL>();
    case BlockType::IQ4_XS: return f.template operator()<BlockType::IQ4_XS>();
    default: throw_not_quantized(type);
    }
}

} // namespace muser::cpu
