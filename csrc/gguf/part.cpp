// Header, metadata, tensor table, data section: the order of the file.
#include "gguf/part.h"

#include <bit>

#include "gguf/cursor.h"
#include "gguf/header.h"
#include "gguf/lookup.h"
#include "gguf/metadata.h"
#include "gguf/tensor_table.h"

namespace muser::gguf {

namespace {

constexpr uint64_t kDefaultAlignment = 32; // the format's
constexpr uint64_t kMinAlignment = 8;      // float32 and uint64 fields may be read in place
constexpr uint64_t kMaxAlignment = 1 << 20;

uint32_t read_alignment(const Part &part, const std::string &path) {
    constexpr std::string_view kKey = "general.alignment";
    const Entry *entry = find_entry(part.metadata, kKey);
    if (!entry)
        return kDefaultAlignment;
    const uint64_t alignment = as_uint(*entry, path);
    if (!std::has_single_bit(alignment) || alignment < kMinAlignment || alignment > kMaxAlignment)
        throw format_error(path, entry->offset, "key " + quoted(kKey) + " is " + std::to_string(alignment) +
                                                    ", not a power of two from 8 to 1048576");
    return static_cast<uint32_t>(alignment);
}

} // namespace

Part parse_part(std::span<const std::byte> bytes, const std::string &path, const MappedFile *file) {
    Cursor cursor(bytes, path);
    const Header header = read_header(cursor);
    Part part;
    part.version = header.version;
    part.metadata = read_metadata(cursor, header.n_entries);
    part.alignment = read_alignment(part, path);
    part.tensors = read_tensors(cursor, header.n_tensors, part.alignment, bytes, file);
    return part;
}

} // namespace muser::gguf
