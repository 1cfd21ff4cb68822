// The memory of an MTLBuffer. Command buffers keep it alive past the buffer object, so that a host that frees too
// early is reported and not crashed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "../runtime/memory.h"

namespace fake {

constexpr uint64_t page = 16384; // Apple's

struct Store {
    static std::shared_ptr<Store> make(uint64_t bytes);                     // filled with NaN where it is not large
    static std::shared_ptr<Store> lend(unsigned char *base, uint64_t bytes); // newBufferWithBytesNoCopy
    Store(unsigned char *base, uint64_t bytes, bool owned);
    ~Store();
    Store(const Store &) = delete;
    Store &operator=(const Store &) = delete;

    bool is_mapped() const; // lent memory may be gone
    uint64_t checksum() const;

    msl::Allocation memory;
    const bool owned;
    const uint64_t id;
    bool is_private = false;
    bool untracked = false;
    std::atomic<bool> released{false}; // the buffer object is gone

  private:
    void trim_to_mapped();
    bool mapped(uint64_t begin, uint64_t end) const;
    uint64_t mapped_begin_ = 0, mapped_end_ = 0;
};

} // namespace fake
