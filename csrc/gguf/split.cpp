// Numbers in the keys count from 0, numbers in the names from 1.
#include "gguf/split.h"

#include <cstdio>

#include "gguf/cursor.h"
#include "gguf/lookup.h"

namespace muser::gguf {

namespace {

constexpr std::string_view kNo = "split.no", kCount = "split.count", kTensors = "split.tensors.count";

std::string suffix(uint32_t number, uint32_t count) {
    char text[48];
    std::snprintf(text, sizeof text, "-%05u-of-%05u.gguf", number + 1, count);
    return text;
}

std::string of(uint64_t number, uint64_t count) { return std::to_string(number) + " of " + std::to_string(count); }

} // namespace

uint32_t split_count(const Part &first, const std::string &path) {
    const Entry *entry = find_entry(first.metadata, kCount);
    if (!entry)
        return 1;
    const uint64_t count = as_uint(*entry, path);
    if (count > 99999) // five digits in the name; the writer's own field has 16 bits
        throw format_error(path, entry->offset, "key " + quoted(kCount) + " is " + std::to_string(count) + ", above 99999");
    if (count <= 1)
        return 1;
    const auto n = static_cast<uint32_t>(count);
    if (const Entry *no = find_entry(first.metadata, kNo); no && as_uint(*no, path) != 0)
        throw format_error(path, no->offset, "this is part " + of(as_uint(*no, path) + 1, n) +
                                                 " of a split model: open its first part, whose name ends in " + suffix(0, n));
    if (!path.ends_with(suffix(0, n)))
        throw format_error(path, entry->offset, "this is the first of " + std::to_string(n) +
                                                    " parts, but its name does not end in " + suffix(0, n) +
                                                    ", so the others cannot be found");
    return n;
}

std::string split_path(const std::string &first_path, uint32_t number, uint32_t count) {
    return first_path.substr(0, first_path.size() - suffix(0, count).size()) + suffix(number, count);
}

void check_split_part(const Part &part, const std::string &path, uint32_t number, uint32_t count) {
    const auto require = [&](std::string_view key, uint64_t wanted) {
        const Entry *entry = find_entry(part.metadata, key);
        if (!entry)
            throw format_error(path, 0, "part " + of(number + 1, count) + " has no key " + quoted(key));
        if (const uint64_t value = as_uint(*entry, path); value != wanted)
            throw format_error(path, entry->offset, "part " + of(number + 1, count) + ": key " + quoted(key) + " is " +
                                                        std::to_string(value) + ", not " + std::to_string(wanted));
    };
    require(kNo, number);
    require(kCount, count);
}

void check_split_total(const Part &first, const std::string &path, uint64_t n_tensors) {
    const Entry *entry = find_entry(first.metadata, kTensors);
    if (!entry)
        throw format_error(path, 0, "the first part has no key " + quoted(kTensors));
    if (const uint64_t value = as_uint(*entry, path); value != n_tensors)
        throw format_error(path, entry->offset, "key " + quoted(kTensors) + " is " + std::to_string(value) +
                                                    ", but the parts have " + std::to_string(n_tensors) + " tensors");
}

} // namespace muser::gguf
