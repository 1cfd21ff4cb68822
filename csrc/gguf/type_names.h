// Names of the tensor types that GGUF defines and muser does not read, so that the refusal can name them.
#pragma once

#include <cstdint>
#include <string_view>

namespace muser::gguf {

// Empty for an id that GGUF has never defined (and for the types of block_type.h).
constexpr std::string_view unsupported_type_name(uint32_t id) {
    switch (id) {
    case 4: return "Q4_2";
    case 5: return "Q4_3";
    case 9: return "Q8_1";
    case 15: return "Q8_K";
    case 16: return "IQ2_XXS";
    case 17: return "IQ2_XS";
    case 18: return "IQ3_XXS";
    case 19: return "IQ1_S";
    case 21: return "IQ3_S";
    case 22: return "IQ2_S";
    case 24: return "I8";
    case 25: return "I16";
    case 26: return "I32";
    case 27: return "I64";
    case 28: return "F64";
    case 29: return "IQ1_M";
    case 31: return "Q4_0_4_4";
    case 32: return "Q4_0_4_8";
    case 33: return "Q4_0_8_8";
    case 34: return "TQ1_0";
    case 35: return "TQ2_0";
    case 36: return "IQ4_NL_4_4";
    case 37: return "IQ4_NL_4_8";
    case 38: return "IQ4_NL_8_8";
    case 39: return "MXFP4";
    case 40: return "NVFP4";
    case 41: return "Q1_0";
    default: return {};
    }
}

} // namespace muser::gguf
