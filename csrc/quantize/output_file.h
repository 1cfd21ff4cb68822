// A file that appears whole or not at all: written under another name in the same folder, renamed when it is finished.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace muser::quantize {

class OutputFile {
  public:
    // Throws Error{io}, as do the others; also where `path` is a folder or a device, which no file may replace.
    explicit OutputFile(const std::string &path);
    ~OutputFile(); // removes what was not finished
    OutputFile(const OutputFile &) = delete;
    OutputFile &operator=(const OutputFile &) = delete;

    void write(std::span<const std::byte> bytes);
    uint64_t size() const noexcept { return size_; }

    // On the disk, then in its place, in one step.
    void finish();

    // Whether both paths lead to one file now, through whatever links.
    static bool same(const std::string &a, const std::string &b);

  private:
    [[noreturn]] void fail(int code) const;

    std::string path_, part_;
    int fd_ = -1;
    uint64_t size_ = 0;
};

} // namespace muser::quantize
