// The CPU device's KvStore: every plane of one session in one lazily committed allocation.
// Planes of equally many rows (all growing ones; all rings) interleave block by block: positions come in order, so
// memory is touched from front to back, and large pages cost at most one of them beyond what is used.
#pragma once

#include <span>
#include <vector>

#include "device/cpu/page_buffer.h"
#include "device/cpu/plane.h"
#include "device/device.h"

namespace muser::cpu {

class KvPlanes final : public KvStore {
  public:
    // Rows are rounded up to whole blocks of 64. Throws Error{parameter} for a ring whose rows are not whole
    // blocks, a head_dim that is not a multiple of 8 (of q8_0: 32) up to 512, or an empty dimension.
    explicit KvPlanes(std::span<const PlaneSpec> planes);

    static uint64_t bytes(std::span<const PlaneSpec> planes);

    void read_rows(uint32_t plane, Positions positions, std::byte *out) const override;
    void write_rows(uint32_t plane, Positions positions, const std::byte *in) override;
    void copy(const KvStore &from, uint32_t written) override;

    const PlaneView &plane(uint32_t index) const { return views_.at(index); }
    std::span<std::byte> memory() const { return {buffer_.data(), buffer_.size()}; } // for tests that poison it

  private:
    struct Section { // the planes of equally many blocks
        uint64_t start, blocks, block_bytes;
    };

    PageBuffer buffer_;
    std::vector<Section> sections_;
    std::vector<PlaneView> views_;
};

} // namespace muser::cpu
