// Puts includes in place; the files themselves come from embed.cmake.
#include "device/metal/sources.h"

#include <set>

#include "core/error.h"

namespace muser::metal {

struct SourceFile {
    std::string_view name, text;
};
extern const SourceFile kSourceFiles[]; // ends with an empty name

namespace {

std::string_view text_of(std::string_view name) {
    for (const SourceFile *file = kSourceFiles; !file->name.empty(); ++file)
        if (file->name == name)
            return file->text;
    throw Error(ErrorCode::internal, "no kernel source " + std::string(name));
}

void append(std::string_view name, std::set<std::string_view> &seen, std::string &out) {
    constexpr std::string_view kInclude = "#include \"", kOnce = "#pragma once";
    if (!seen.insert(name).second)
        return;
    std::string_view text = text_of(name);
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(end);
        if (line.starts_with(kInclude))
            append(line.substr(kInclude.size(), line.find('"', kInclude.size()) - kInclude.size()), seen, out);
        else if (!line.starts_with(kOnce))
            out += line;
    }
}

} // namespace

std::string kernel_source(std::string_view name) {
    std::set<std::string_view> seen;
    std::string out;
    append(std::string(name) + ".metal", seen, out);
    return out;
}

} // namespace muser::metal
