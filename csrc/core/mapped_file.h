// A read-only memory mapping of a whole file, and its descriptor for reading without mapping.
// An empty file maps to an empty span; a directory, pipe or device is refused.
// Limit: a file truncated by another process while mapped raises SIGBUS on access (docs/guarantees.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

struct stat;

namespace muser {

class MappedFile {
  public:
    explicit MappedFile(const std::string &path); // throws Error{io} naming path and the OS's reason
    ~MappedFile();
    MappedFile(const MappedFile &) = delete;
    MappedFile &operator=(const MappedFile &) = delete;

    const std::string &path() const noexcept { return path_; }
    std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

    // Tells the OS that these bytes will not be read again soon (their resident pages may go).
    void release(std::span<const std::byte> range) const noexcept;

    // Copies range, a part of bytes(), from the file itself: as fast as through the mapping, but no page of the file
    // becomes resident, and a file that has become shorter is an error. Throws Error{io}.
    void read(std::span<const std::byte> range, std::byte *to) const;

    // Whether the file was written to or truncated since it was opened. Another file put in its place (a rename)
    // does not count: the mapping is still the old one.
    bool changed() const noexcept;

  private:
    // What a write to the file changes.
    struct Stamp {
        int64_t size = 0, seconds = 0, nanoseconds = 0;
        bool operator==(const Stamp &) const = default;
    };
    struct Descriptor {
        int fd;
        explicit Descriptor(const std::string &path);
        ~Descriptor();
        Descriptor(const Descriptor &) = delete;
        Descriptor &operator=(const Descriptor &) = delete;
    };
    static Stamp stamp_of(const struct stat &status) noexcept;

    std::string path_;
    Descriptor file_;
    Stamp opened_;
    const std::byte *data_ = nullptr;
    size_t size_ = 0;
};

} // namespace muser
