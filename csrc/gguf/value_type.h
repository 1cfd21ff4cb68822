// GGUF's metadata value type ids and their names.
#pragma once

#include <cstdint>
#include <string_view>

namespace muser::gguf {

enum ValueType : uint32_t {
    kUint8 = 0, kInt8 = 1, kUint16 = 2, kInt16 = 3, kUint32 = 4, kInt32 = 5, kFloat32 = 6,
    kBool = 7, kString = 8, kArray = 9, kUint64 = 10, kInt64 = 11, kFloat64 = 12,
};

constexpr std::string_view value_type_name(uint32_t type) {
    constexpr std::string_view names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                          "bool", "string", "array", "u64", "i64", "f64"};
    return type < std::size(names) ? names[type] : "unknown";
}

} // namespace muser::gguf
