// Which plane each layer of a session gets, and which positions a plane still holds.
// Growing planes keep every row; a ring keeps window + kRingMargin rows, so that a whole prefill chunk, or
// a rewind of up to kRingMargin rows, never overwrites a key that is still inside the window.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "model/hparams.h"

namespace muser {

inline constexpr uint32_t kRingMargin = 512; // rows; also the most rows of one prefill chunk

// One spec a layer for sessions of `context` rows. Throws Error{parameter} for q8_0 and heads that its blocks do not divide.
std::vector<PlaneSpec> plane_specs(const HParams &hparams, uint32_t context, KvType type);

// The positions below `position` that a plane still holds after `high_water` rows were ever written.
Positions held_positions(const PlaneSpec &plane, uint32_t position, uint32_t high_water);

// How far a session can go back. high_water is the number of rows ever written since the session was empty: a
// ring's row at position p is lost once position p + rows was written, even if that was rewound.
class RewindLimit {
  public:
    RewindLimit() = default;
    RewindLimit(const HParams &hparams, const std::vector<PlaneSpec> &planes);

    void wrote(uint32_t end) { high_water_ = end > high_water_ ? end : high_water_; }
    void reset() { high_water_ = 0; }
    uint32_t high_water() const { return high_water_; }
    void restore(uint32_t high_water) { high_water_ = high_water; }
    // The lowest position from which decoding gives the same bits as if the later rows had never been.
    uint32_t lowest() const;

  private:
    uint32_t high_water_ = 0;
    uint32_t rows_ = 0; // of the tightest ring; 0: no rings
    uint32_t window_ = 0;
};

} // namespace muser
