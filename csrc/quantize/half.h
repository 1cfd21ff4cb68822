// Float32 to the 16-bit floats of GGUF, rounded to the nearest, ties to even: the bits of numpy and of the `gguf` package.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace muser::quantize {

inline constexpr float kLargestHalf = 65504.0f;

inline uint16_t float_to_half(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) // NaN: quiet, with the upper bits of its payload
        return static_cast<uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x477ff000u) // 65520 and above
        return static_cast<uint16_t>(sign | 0x7c00u);
    if (magnitude < 0x38800000u) // subnormal: at 0.5 a float's last bit is 2^-24, so that the addition rounds
        return static_cast<uint16_t>(
            sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u));
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return static_cast<uint16_t>(sign | (rounded - (112u << 23)) >> 13);
}

inline uint16_t float_to_bfloat16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// For a scale or a min: what is too large becomes the largest half, and what would vanish the smallest one, so that
// tiny weights keep their sign and size.
inline uint16_t bounded_half(float value) {
    const uint16_t bits = float_to_half(std::clamp(value, -kLargestHalf, kLargestHalf));
    return static_cast<uint16_t>((bits & 0x7fffu) == 0 && value != 0.0f ? bits | 1u : bits);
}

} // namespace muser::quantize
