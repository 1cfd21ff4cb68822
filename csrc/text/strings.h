// The texts of a vocabulary, by number, in one piece of memory; and the way back from a text to its number.
// A vocabulary of 262k tokens takes about 7 MB here and about ten times that as Python strings in a dict.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muser::text {

class Strings {
  public:
    void reserve(size_t count, size_t bytes);
    // Throws Error{model_format} beyond 4 GiB of text or 2^31 texts.
    void add(std::string_view text);

    size_t size() const { return ends_.size() - 1; }
    std::string_view all() const { return bytes_; } // one after the other
    std::string_view operator[](size_t i) const {
        return std::string_view(bytes_).substr(ends_[i], ends_[i + 1] - ends_[i]);
    }

    // Fetches where text i lies, and then the text, into the cache.
    void prefetch_place(size_t i) const { __builtin_prefetch(&ends_[i]); }
    void prefetch_text(size_t i) const { __builtin_prefetch(bytes_.data() + ends_[i]); }

  private:
    std::string bytes_;
    std::vector<uint32_t> ends_{0}; // text i lies between ends_[i] and ends_[i + 1]
};

// From a text to its number.
class StringIndex {
  public:
    // Empty texts are left out: real files have them, and nothing encodes to one.
    explicit StringIndex(std::shared_ptr<const Strings> strings);

    int32_t find(std::string_view text) const; // -1 when there is none
    // The same for many texts: their cache misses overlap, which is most of what a look-up costs.
    void find_all(std::span<const std::string_view> texts, std::span<int32_t> numbers) const;
    std::optional<std::pair<int32_t, int32_t>> duplicate() const { return duplicate_; } // two numbers of one text
    const Strings &strings() const { return *strings_; }

  private:
    struct Slot {
        uint32_t tag = 0;
        int32_t number = -1;
    };
    // Where the text of this hash is, or the empty slot where it would be.
    size_t place(std::string_view text, uint64_t hash) const;
    size_t first_place(uint64_t hash) const { return hash & (slots_.size() - 1); }

    std::shared_ptr<const Strings> strings_;
    std::vector<Slot> slots_; // a power of two, at most half full
    std::optional<std::pair<int32_t, int32_t>> duplicate_;
};

} // namespace muser::text
