// Anonymous zero-filled memory straight from the operating system: page-aligned, committed when touched,
// given back at once when destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace muser::cpu {

uint64_t round_to_pages(uint64_t bytes);

inline constexpr uint64_t kLargePage = 2 << 20; // the usual size on x86-64 and aarch64

class PageBuffer {
  public:
    // Large pages are committed whole: for memory that is written whole, or from front to back. A buffer of at least
    // one large page starts on the border of one.
    enum class Pages { small, large_where_possible };

    PageBuffer() = default;
    // Rounded up to whole small pages. Throws Error{out_of_memory}.
    explicit PageBuffer(uint64_t bytes, Pages pages = Pages::small);
    PageBuffer(PageBuffer &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    PageBuffer &operator=(PageBuffer &&other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~PageBuffer();

    // What it held is lost: for memory of which little was used until now, and much will be.
    void clear_to_large_pages();

    std::byte *data() const noexcept { return data_; }
    uint64_t size() const noexcept { return size_; }

  private:
    void ask_for_large_pages();

    std::byte *data_ = nullptr;
    uint64_t size_ = 0;
};

} // namespace muser::cpu
