// The tokens that a sampler has seen, prompt and completion, as far back as its penalties look.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sample/params.h"

namespace muser {

class History {
  public:
    explicit History(const SamplerParams &params);

    void push(int32_t token);
    // How often each token occurs among the last penalty_last_n.
    const std::unordered_map<int32_t, uint32_t> &counts() const { return counts_; }
    // The last dry_penalty_last_n, oldest first.
    std::span<const int32_t> dry_window() const { return last(dry_window_); }

    std::span<const int32_t> kept() const { return last(keep_); } // what a copy needs
    void restore(std::span<const int32_t> kept);

  private:
    std::span<const int32_t> last(size_t n) const;

    size_t penalty_window_, dry_window_, keep_;
    std::vector<int32_t> tokens_;
    std::unordered_map<int32_t, uint32_t> counts_;
};

} // namespace muser
