#include "session/prefix_store.h"

#include <algorithm>

namespace muser {

size_t reusable_rows(std::span<const int32_t> tokens, std::span<const int32_t> prompt, const RewindLimit &limit, size_t most) {
    if (prompt.empty())
        return 0;
    most = std::min({most, tokens.size(), prompt.size() - 1});
    const auto differ = std::mismatch(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(most), prompt.begin()).first;
    const auto n = static_cast<size_t>(differ - tokens.begin());
    return n >= limit.lowest() ? n : 0;
}

size_t Retained::reusable(std::span<const int32_t> prompt, bool prefilled_only) const {
    return reusable_rows(tokens, prompt, limit, prefilled_only ? prefilled : SIZE_MAX);
}

std::optional<Retained> PrefixStore::take(std::span<const int32_t> prompt, size_t more_than) {
    std::lock_guard lock(mutex_);
    auto found = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        const size_t n = entry->retained.reusable(prompt, prefilled_only_);
        if (n > more_than) {
            more_than = n;
            found = entry;
        }
    }
    if (found == entries_.end())
        return std::nullopt;
    bytes_ -= found->bytes;
    Retained retained = std::move(found->retained);
    entries_.erase(found);
    return retained;
}

void PrefixStore::put(Retained retained, uint64_t bytes) {
    std::list<Entry> dropped; // freed after the lock
    std::lock_guard lock(mutex_);
    entries_.push_front({std::move(retained), bytes});
    bytes_ += bytes;
    while (bytes_ > budget_) {
        bytes_ -= entries_.back().bytes;
        dropped.splice(dropped.end(), entries_, std::prev(entries_.end()));
        ++evicted_;
    }
}

PrefixStore::Stats PrefixStore::stats() const {
    std::lock_guard lock(mutex_);
    return {entries_.size(), bytes_, budget_, evicted_};
}

} // namespace muser
