// Typed views of one metadata entry. A value of another type or out of range is an error of the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "gguf/file.h"

namespace muser::gguf {

// By linear search: for the few keys that are needed before an index exists. Null when absent.
const Entry *find_entry(std::span<const Entry> entries, std::string_view key);

uint64_t as_uint(const Entry &entry, const std::string &path); // any non-negative integer type
double as_float(const Entry &entry, const std::string &path);  // f32 or f64
bool as_bool(const Entry &entry, const std::string &path);
std::string_view as_string(const Entry &entry, const std::string &path);

} // namespace muser::gguf
