// Scalars, strings and arrays of the key/value section. Strings and arrays stay views into the mapped file.
#include "gguf/metadata.h"

#include <utility>

#include "gguf/name_index.h"
#include "gguf/value_type.h"

namespace muser::gguf {

namespace {

constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1; // key length, one byte of key, type, one byte of value

bool read_bool(Cursor &cursor, const Subject &subject) {
    const uint64_t at = cursor.position();
    const auto byte = cursor.read<uint8_t>(subject);
    if (byte > 1)
        cursor.fail(at, subject.text() + " is a bool with the value " + std::to_string(byte) + ", not 0 or 1");
    return byte == 1;
}

Array read_array(Cursor &cursor, const Subject &subject, int depth);

void skip_numbers(Cursor &cursor, uint64_t count, uint64_t size, const Subject &subject) {
    cursor.require_elements(count, size, subject);
    cursor.read_bytes(count * size, subject);
}

void check_bools(Cursor &cursor, uint64_t count, const Subject &subject) {
    cursor.require_elements(count, 1, subject);
    for (uint64_t i = 0; i < count; ++i)
        read_bool(cursor, subject);
}

void check_strings(Cursor &cursor, uint64_t count, const Subject &subject) {
    cursor.require_elements(count, sizeof(uint64_t), subject);
    for (uint64_t i = 0; i < count; ++i)
        cursor.read_string(subject);
}

std::vector<Array> read_arrays(Cursor &cursor, uint64_t count, const Subject &subject, int depth) {
    if (depth >= kMaxArrayDepth)
        cursor.fail(cursor.position(), subject.text() + " nests arrays deeper than " + std::to_string(kMaxArrayDepth));
    cursor.require_elements(count, sizeof(uint32_t) + sizeof(uint64_t), subject);
    std::vector<Array> arrays;
    arrays.reserve(count);
    for (uint64_t i = 0; i < count; ++i)
        arrays.push_back(read_array(cursor, subject, depth + 1));
    return arrays;
}

[[noreturn]] void unknown_type(const Cursor &cursor, uint64_t at, const Subject &subject, uint32_t type) {
    cursor.fail(at, subject.text() + " has the value type " + std::to_string(type) + ", which GGUF does not define");
}

// u32 element type, u64 count, then the elements.
Array read_array(Cursor &cursor, const Subject &subject, int depth) {
    const uint64_t at = cursor.position();
    Array array;
    array.element_type = cursor.read<uint32_t>(subject);
    array.count = cursor.read<uint64_t>(subject);
    const std::string_view rest = cursor.peek(UINT64_MAX);
    switch (array.element_type) {
    case kUint8:
    case kInt8: skip_numbers(cursor, array.count, 1, subject); break;
    case kUint16:
    case kInt16: skip_numbers(cursor, array.count, 2, subject); break;
    case kUint32:
    case kInt32:
    case kFloat32: skip_numbers(cursor, array.count, 4, subject); break;
    case kUint64:
    case kInt64:
    case kFloat64: skip_numbers(cursor, array.count, 8, subject); break;
    case kBool: check_bools(cursor, array.count, subject); break;
    case kString: check_strings(cursor, array.count, subject); break;
    case kArray: array.arrays = read_arrays(cursor, array.count, subject, depth); break;
    default: unknown_type(cursor, at, subject, array.element_type);
    }
    array.bytes = std::as_bytes(std::span(rest.substr(0, rest.size() - cursor.remaining())));
    return array;
}

Value unsigned_value(uint64_t value) { return Value(std::in_place_type<uint64_t>, value); }
Value signed_value(int64_t value) { return Value(std::in_place_type<int64_t>, value); }
Value float_value(double value) { return Value(std::in_place_type<double>, value); }

Value read_value(Cursor &cursor, uint32_t type, uint64_t type_at, const Subject &subject) {
    switch (type) {
    case kUint8: return unsigned_value(cursor.read<uint8_t>(subject));
    case kUint16: return unsigned_value(cursor.read<uint16_t>(subject));
    case kUint32: return unsigned_value(cursor.read<uint32_t>(subject));
    case kUint64: return unsigned_value(cursor.read<uint64_t>(subject));
    case kInt8: return signed_value(cursor.read<int8_t>(subject));
    case kInt16: return signed_value(cursor.read<int16_t>(subject));
    case kInt32: return signed_value(cursor.read<int32_t>(subject));
    case kInt64: return signed_value(cursor.read<int64_t>(subject));
    case kFloat32: return float_value(cursor.read<float>(subject));
    case kFloat64: return float_value(cursor.read<double>(subject));
    case kBool: return Value(std::in_place_type<bool>, read_bool(cursor, subject));
    case kString: return Value(std::in_place_type<std::string_view>, cursor.read_string(subject));
    case kArray: return Value(read_array(cursor, subject, 1));
    default: unknown_type(cursor, type_at, subject, type);
    }
}

} // namespace

std::vector<Entry> read_metadata(Cursor &cursor, uint64_t count) {
    cursor.require_elements(count, kMinEntryBytes, {"the metadata", {}});
    std::vector<Entry> entries;
    entries.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t at = cursor.position();
        const std::string_view key = cursor.read_name({"a metadata key", {}}, "the key of metadata entry", i);
        const Subject subject{"key", key};
        const uint64_t type_at = cursor.position();
        const auto type = cursor.read<uint32_t>(subject);
        entries.push_back({key, type, read_value(cursor, type, type_at, subject), at});
    }
    if (const Entry *twin = first_duplicate(std::span<const Entry>(entries), &Entry::key))
        cursor.fail(twin->offset, "key " + quoted(twin->key) + " appears twice");
    return entries;
}

} // namespace muser::gguf
