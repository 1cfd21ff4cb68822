// What released slots held, for prompts that begin with the same tokens. An entry is a whole KvStore that changed
// hands: nothing is copied on the way in or out. Bounded in bytes; the least recently used entry goes first.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "device/device.h"
#include "kv/planes.h"

namespace muser {

// Rows that a prompt can take over from a session of these tokens: the longest common prefix of at most `most` rows
// that leaves the prompt one token to compute, if the rings still hold what the next row reads; else 0.
size_t reusable_rows(std::span<const int32_t> tokens, std::span<const int32_t> prompt, const RewindLimit &limit, size_t most);

// The rows of a session that nobody drives any more.
struct Retained {
    std::unique_ptr<KvStore> kv;
    std::vector<int32_t> tokens;
    RewindLimit limit;
    uint32_t prefilled = 0; // leading rows that no decode took part in

    // prefilled_only: the device's decode gives other bits than its prefill.
    size_t reusable(std::span<const int32_t> prompt, bool prefilled_only) const;
};

inline constexpr size_t kWorthKeeping = 64; // rows; fewer are computed again faster than they are managed

class PrefixStore {
  public:
    PrefixStore(uint64_t budget, bool prefilled_only) : budget_(budget), prefilled_only_(prefilled_only) {}

    struct Stats {
        uint64_t entries = 0, bytes = 0, budget = 0, evicted = 0;
    };

    bool prefilled_only() const { return prefilled_only_; }
    bool has_room_for(uint64_t bytes) const { return bytes <= budget_; }
    // Takes the entry with the most rows for the prompt, if it has more than `more_than`.
    std::optional<Retained> take(std::span<const int32_t> prompt, size_t more_than);
    // Keeps it; evicts others, and drops the entry itself if it alone is too large.
    void put(Retained entry, uint64_t bytes);
    Stats stats() const;

  private:
    struct Entry {
        Retained retained;
        uint64_t bytes;
    };

    const uint64_t budget_;
    const bool prefilled_only_;
    mutable std::mutex mutex_;
    std::list<Entry> entries_; // most recently used first
    uint64_t bytes_ = 0, evicted_ = 0;
};

} // namespace muser
