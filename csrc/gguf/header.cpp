// A wrong file is most often a failed download or another format: the message says which, when it can.
#include "gguf/header.h"

namespace muser::gguf {

namespace {

constexpr std::string_view kMagic = "GGUF";

// What the first bytes look like; empty when nothing known.
std::string_view other_kind(std::string_view head) {
    struct Kind {
        std::string_view magic, text;
    };
    static constexpr Kind kKinds[] = {
        {"FUGG", "a big-endian GGUF file (muser reads little-endian files)"},
        {"<", "an HTML or XML page (a failed download?)"},
        {"PK\x03\x04", "a zip archive or a PyTorch checkpoint"},
        {"\x1f\x8b", "a gzip archive"},
        {"version https://git-lfs", "a Git LFS pointer, not the model it points to"},
        {"lmgg", "an old GGML file"},
        {"fmgg", "an old GGML file"},
        {"tjgg", "an old GGML file"},
        {"\x89HDF", "an HDF5 file"},
        {"\x7f" "ELF", "a program"},
    };
    for (const Kind &kind : kKinds)
        if (head.starts_with(kind.magic))
            return kind.text;
    // safetensors: a 64-bit length, then a JSON object.
    return head.size() > 8 && head[8] == '{' ? "a safetensors file" : std::string_view();
}

void check_magic(const Cursor &cursor) {
    const std::string_view head = cursor.peek(32);
    if (head.starts_with(kMagic))
        return;
    if (head.empty())
        cursor.fail(0, "the file is empty");
    if (kMagic.starts_with(head))
        cursor.fail(head.size(), "the file ends inside the header");
    const std::string_view kind = other_kind(head);
    cursor.fail(0, "not a GGUF file: it begins with " + quoted(head.substr(0, 4)) +
                       (kind.empty() ? std::string() : ", like " + std::string(kind)));
}

void check_version(Cursor &cursor, uint32_t version) {
    if (version == 2 || version == 3)
        return;
    const uint64_t at = cursor.position() - sizeof(version);
    const uint32_t swapped = __builtin_bswap32(version);
    if (swapped >= 1 && swapped < 16)
        cursor.fail(at, "a big-endian GGUF file (version " + std::to_string(swapped) + "): muser reads little-endian files");
    cursor.fail(at, "GGUF version " + std::to_string(version) + " is not supported: muser reads versions 2 and 3");
}

} // namespace

Header read_header(Cursor &cursor) {
    const Subject subject{"the header", {}};
    check_magic(cursor);
    cursor.read_bytes(kMagic.size(), subject);
    Header header{};
    header.version = cursor.read<uint32_t>(subject);
    check_version(cursor, header.version);
    header.n_tensors = cursor.read<uint64_t>(subject);
    header.n_entries = cursor.read<uint64_t>(subject);
    return header;
}

} // namespace muser::gguf
