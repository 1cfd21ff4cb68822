// The Metal device's KvStore: all planes of one session in one buffer. Metal wires it whole when a pass first uses it.
#pragma once

#include <span>
#include <vector>

#include "device/device.h"
#import "device/metal/gpu.h"

namespace muser::metal {

class KvBuffer final : public KvStore {
  public:
    struct Plane {
        PlaneSpec spec;
        NSUInteger offset;
    };

    // Throws Error{parameter} for a head_dim that is not a multiple of 8 (of q8_0: 32) up to 512, or an empty dimension.
    KvBuffer(const Gpu &gpu, std::span<const PlaneSpec> planes);
    static uint64_t bytes(std::span<const PlaneSpec> planes);

    void read_rows(uint32_t plane, Positions positions, std::byte *out) const override;
    void write_rows(uint32_t plane, Positions positions, const std::byte *in) override;
    void copy(const KvStore &from, uint32_t written) override;

    const PlaneSpec &spec(uint32_t plane) const { return planes_.at(plane).spec; }
    Place place(uint32_t plane) const { return {buffer_, planes_.at(plane).offset}; }

  private:
    // visit(the bytes in the plane of one head's key or value, its place in the rows that are one after the other, size)
    template <class Visit> void each_part(uint32_t plane, Positions positions, Visit visit) const;

    id<MTLBuffer> buffer_;
    std::vector<Plane> planes_;
};

} // namespace muser::metal
