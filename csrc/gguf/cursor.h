// Reads little-endian fields from a bounded span of a file. Nothing is read, and no count is believed,
// before it was compared with the bytes that are left; a violation names the file and the byte offset.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"
#include "gguf/text.h"

namespace muser::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF fields are read as they lie in the file");

// The format's own limit for keys; tensor names, for which it says 64, are held to the same.
inline constexpr uint64_t kMaxNameBytes = 65535;

// "PATH: TEXT (at byte OFFSET)"
inline Error format_error(const std::string &path, uint64_t offset, const std::string &text) {
    return Error(ErrorCode::model_format, path + ": " + text + " (at byte " + std::to_string(offset) + ")",
                 {{"path", path}, {"offset", static_cast<int64_t>(offset)}});
}

// What is being read, for the message: {"key", "general.name"} or {"the header", ""}. Costs nothing until used.
struct Subject {
    std::string_view kind;
    std::string_view name;

    std::string text() const {
        std::string text(kind);
        if (!name.empty())
            text.append(" ").append(quoted(name));
        return text;
    }
};

class Cursor {
  public:
    Cursor(std::span<const std::byte> bytes, const std::string &path) : bytes_(bytes), path_(path) {}

    uint64_t position() const { return position_; }
    uint64_t remaining() const { return bytes_.size() - position_; }
    const std::string &path() const { return path_; }

    [[noreturn]] void fail(uint64_t offset, const std::string &text) const { throw format_error(path_, offset, text); }

    template <class T>
        requires(std::integral<T> || std::floating_point<T>)
    T read(const Subject &subject) {
        if (remaining() < sizeof(T))
            fail_short(subject, sizeof(T));
        T value;
        std::memcpy(&value, bytes_.data() + position_, sizeof(T));
        position_ += sizeof(T);
        return value;
    }

    // The next bytes, fewer than length at the end of the file, without moving.
    std::string_view peek(uint64_t length) const {
        return {reinterpret_cast<const char *>(bytes_.data() + position_), std::min(length, remaining())};
    }

    // A view of the next length bytes.
    std::string_view read_bytes(uint64_t length, const Subject &subject) {
        if (remaining() < length)
            fail_short(subject, length);
        const std::string_view view(reinterpret_cast<const char *>(bytes_.data() + position_), length);
        position_ += length;
        return view;
    }

    // u64 length, then the bytes; zero copy.
    std::string_view read_string(const Subject &subject) { return read_bytes(read<uint64_t>(subject), subject); }

    // The same for a key or a name: 1 to kMaxNameBytes bytes of UTF-8. `place` and `index` say which one it is.
    std::string_view read_name(const Subject &subject, std::string_view place, uint64_t index) {
        const uint64_t at = position_;
        const auto refuse = [&](const std::string &why) { fail(at, std::string(place) + " " + std::to_string(index) + why); };
        const auto length = read<uint64_t>(subject);
        if (length == 0 || length > kMaxNameBytes)
            refuse(" has " + std::to_string(length) + " bytes, not 1 to " + std::to_string(kMaxNameBytes));
        const std::string_view name = read_bytes(length, subject);
        if (!is_utf8(name))
            refuse(", " + quoted(name) + ", is not UTF-8");
        return name;
    }

    // Refuses a count whose elements, of at least min_bytes each, cannot all be in the rest of the file.
    // Called before any allocation of count elements.
    void require_elements(uint64_t count, uint64_t min_bytes, const Subject &subject) const {
        if (count > remaining() / min_bytes)
            fail(position_, subject.text() + " claims " + std::to_string(count) + " elements of at least " +
                                std::to_string(min_bytes) + " bytes, but only " + std::to_string(remaining()) +
                                " bytes are left: the file is truncated or damaged");
    }

  private:
    [[noreturn]] void fail_short(const Subject &subject, uint64_t wanted) const {
        fail(position_, "the file ends inside " + subject.text() + ": " + std::to_string(wanted) + " bytes wanted, " +
                            std::to_string(remaining()) + " left");
    }

    std::span<const std::byte> bytes_;
    const std::string &path_;
    uint64_t position_ = 0;
};

} // namespace muser::gguf
