// When a prompt's pass lets waiting decoders in: after it has run for kLeastStretch, and for as long as a decode pass
// takes. So a stream's tokens are about that and a decode pass apart, and a prompt keeps at least half of the device,
// whatever the model's size.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace muser {

// Below what a reader notices between two tokens; of a model whose decode pass takes a fifth of it, the prompt still has
// five sixths of the device.
inline constexpr std::chrono::milliseconds kLeastStretch{20};

// Not synchronised: whoever holds the accelerator asks and tells.
class PauseRule {
  public:
    // always: a stretch whatever passes take, for tests.
    explicit PauseRule(std::optional<std::chrono::nanoseconds> always = {}) : always_(always) {}

    std::chrono::nanoseconds stretch() const {
        return always_.value_or(std::max<std::chrono::nanoseconds>(kLeastStretch, decode_time_));
    }

    // The mean of old and new: one pass that the system interrupted does not count for much.
    void decode_took(std::chrono::nanoseconds time) { decode_time_ = decode_time_.count() > 0 ? (decode_time_ + time) / 2 : time; }

  private:
    std::optional<std::chrono::nanoseconds> always_;
    std::chrono::nanoseconds decode_time_{0};
};

} // namespace muser
