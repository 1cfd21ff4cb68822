// A read-only memory mapping of a whole file. The mapping outlives the descriptor.
// An empty file maps to an empty span; a directory, pipe or device is refused.
// Limit: a file truncated by another process while mapped raises SIGBUS on access (docs/guarantees.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

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

  private:
    std::string path_;
    const std::byte *data_ = nullptr;
    size_t size_ = 0;
};

} // namespace muser
