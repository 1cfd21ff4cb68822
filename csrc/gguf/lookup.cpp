// Conversions of one metadata entry, with the message that names key, stored type and value.
#include "gguf/lookup.h"

#include "gguf/cursor.h"
#include "gguf/value_type.h"

namespace muser::gguf {

namespace {

[[noreturn]] void refuse(const Entry &entry, const std::string &path, const std::string &what) {
    throw format_error(path, entry.offset, "key " + quoted(entry.key) + " " + what);
}

[[noreturn]] void wrong_type(const Entry &entry, const std::string &path, std::string_view wanted) {
    refuse(entry, path, "has the type " + std::string(value_type_name(entry.type)) + ", not " + std::string(wanted));
}

} // namespace

const Entry *find_entry(std::span<const Entry> entries, std::string_view key) {
    for (const Entry &entry : entries)
        if (entry.key == key)
            return &entry;
    return nullptr;
}

uint64_t as_uint(const Entry &entry, const std::string &path) {
    if (const auto *value = std::get_if<uint64_t>(&entry.value))
        return *value;
    const auto *value = std::get_if<int64_t>(&entry.value);
    if (!value)
        wrong_type(entry, path, "an integer");
    if (*value < 0)
        refuse(entry, path, "is negative: " + std::to_string(*value));
    return static_cast<uint64_t>(*value);
}

double as_float(const Entry &entry, const std::string &path) {
    if (const auto *value = std::get_if<double>(&entry.value))
        return *value;
    wrong_type(entry, path, "f32 or f64");
}

bool as_bool(const Entry &entry, const std::string &path) {
    if (const auto *value = std::get_if<bool>(&entry.value))
        return *value;
    wrong_type(entry, path, "bool");
}

std::string_view as_string(const Entry &entry, const std::string &path) {
    if (const auto *value = std::get_if<std::string_view>(&entry.value))
        return *value;
    wrong_type(entry, path, "string");
}

} // namespace muser::gguf
