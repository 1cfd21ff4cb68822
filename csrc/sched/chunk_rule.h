// How many prompt rows one prefill pass takes. Where a pass cannot pause (pause_rule.h) a decoder that arrives during it
// waits for its end, so while somebody decodes a chunk is as long as kBusyChunkTime, by the speed of the last chunks.
// Results do not depend on it: rows of a prompt give the same bits however it is cut.
#pragma once

#include <algorithm>
#include <chrono>

namespace muser {

inline constexpr int kMostChunkRows = 512; // and what a pass takes that nobody waits for
inline constexpr int kLeastChunkRows = 64; // fewer rows would read all weights for too little work
inline constexpr int kChunkStep = 16;

// The stream's tokens are then at most about this and one decode pass apart: below what a reader notices, and the
// prompt still runs near full speed.
inline constexpr std::chrono::milliseconds kBusyChunkTime{40};

// Not synchronised: whoever holds the accelerator asks and tells.
class ChunkRule {
  public:
    // alone: how long a chunk may take while nobody decodes, where the device draws the display too; zero: any time.
    explicit ChunkRule(std::chrono::nanoseconds alone = {}) : alone_(alone) {}

    // somebody_waits: a decoder waits or is expected, and the pass will not pause for it.
    int rows(bool somebody_waits) const {
        if (!somebody_waits && alone_.count() == 0)
            return kMostChunkRows;
        if (row_time_.count() <= 0)
            return kLeastChunkRows; // nothing measured yet
        const double fit = (somebody_waits ? Nanoseconds(kBusyChunkTime) : alone_) / row_time_;
        const int rows = static_cast<int>(std::min(fit, double{kMostChunkRows})) / kChunkStep * kChunkStep;
        return std::max(rows, kLeastChunkRows);
    }

    // A chunk of this many rows took this long. A short one says little: most of its time is reading the weights.
    void measured(int rows, std::chrono::nanoseconds time) {
        if (rows < kLeastChunkRows)
            return;
        const Nanoseconds row_time = Nanoseconds(time) / rows;
        // The mean of old and new: one chunk that the system interrupted does not change the size by much.
        row_time_ = row_time_.count() > 0 ? (row_time_ + row_time) / 2 : row_time;
    }

  private:
    using Nanoseconds = std::chrono::duration<double, std::nano>;
    Nanoseconds alone_;
    Nanoseconds row_time_{0};
};

} // namespace muser
