// Look-up of named records by binary search over a sorted permutation. Sorting, unlike hashing, has no
// bad case that a hostile file could choose.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

namespace muser::gguf {

template <class Record> class NameIndex {
  public:
    using Name = std::string_view Record::*;

    NameIndex() = default;
    NameIndex(std::span<const Record> records, Name name) : records_(records), name_(name), order_(records.size()) {
        std::iota(order_.begin(), order_.end(), size_t{0});
        // Ties in file order, so that of two twins the later one is reported.
        std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return at(a) < at(b); });
    }

    const Record *find(std::string_view wanted) const {
        const auto found = std::lower_bound(order_.begin(), order_.end(), wanted,
                                            [&](size_t i, std::string_view key) { return at(i) < key; });
        return found != order_.end() && at(*found) == wanted ? &records_[*found] : nullptr;
    }

    // The second of two records of one name; null when all names differ.
    const Record *duplicate() const {
        for (size_t i = 1; i < order_.size(); ++i)
            if (at(order_[i - 1]) == at(order_[i]))
                return &records_[order_[i]];
        return nullptr;
    }

  private:
    std::string_view at(size_t i) const { return records_[i].*name_; }

    std::span<const Record> records_;
    Name name_ = nullptr;
    std::vector<size_t> order_;
};

template <class Record> const Record *first_duplicate(std::span<const Record> records, std::string_view Record::*name) {
    return NameIndex<Record>(records, name).duplicate();
}

} // namespace muser::gguf
