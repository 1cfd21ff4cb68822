// The CPU device's KvStore: every plane of one session in one lazily committed allocation.
#pragma once

#include <span>
#include <vector>

#include "device/cpu/page_buffer.h"
#include "device/cpu/plane.h"
#include "device/device.h"

namespace muser::cpu {

class KvPlanes final : public KvStore {
  public:
    // Rows are rounded up to a multiple of 16. Throws Error{parameter} for a ring whose rows are not a
    // multiple of 64, a head_dim that is not a multiple of 8 up to 512, or an empty dimension.
    explicit KvPlanes(std::span<const PlaneSpec> planes);

    static uint64_t bytes(std::span<const PlaneSpec> planes);

    const PlaneView &plane(uint32_t index) const { return views_.at(index); }
    std::span<std::byte> memory() const { return {buffer_.data(), buffer_.size()}; } // for tests that poison it

  private:
    PageBuffer buffer_;
    std::vector<PlaneView> views_;
};

} // namespace muser::cpu
