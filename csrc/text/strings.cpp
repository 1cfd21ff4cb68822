#include "text/strings.h"

#include <bit>
#include <limits>

#include "core/error.h"
#include "text/keyed_hash.h"

namespace muser::text {

void Strings::reserve(size_t count, size_t bytes) {
    ends_.reserve(count + 1);
    bytes_.reserve(bytes);
}

void Strings::add(std::string_view text) {
    if (text.size() > std::numeric_limits<uint32_t>::max() - bytes_.size() || size() >= std::numeric_limits<int32_t>::max())
        throw Error(ErrorCode::model_format, "a vocabulary of more than 4 GiB");
    bytes_.append(text);
    ends_.push_back(static_cast<uint32_t>(bytes_.size()));
}

namespace {

constexpr size_t kBatch = 32; // look-ups whose cache misses overlap

uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

} // namespace

StringIndex::StringIndex(std::shared_ptr<const Strings> strings)
    : strings_(std::move(strings)), slots_(std::bit_ceil(2 * strings_->size() + 2)) {
    const size_t n = strings_->size();
    uint64_t hashes[kBatch];
    for (size_t first = 0; first < n; first += kBatch) {
        const size_t count = std::min(kBatch, n - first);
        for (size_t i = 0; i < count; ++i) {
            hashes[i] = keyed_hash((*strings_)[first + i]);
            __builtin_prefetch(&slots_[first_place(hashes[i])]);
        }
        for (size_t i = 0; i < count; ++i) {
            const std::string_view text = (*strings_)[first + i];
            if (text.empty())
                continue;
            Slot &slot = slots_[place(text, hashes[i])];
            const auto number = static_cast<int32_t>(first + i);
            if (slot.number < 0)
                slot = {tag_of(hashes[i]), number};
            else if (!duplicate_)
                duplicate_ = {slot.number, number};
        }
    }
}

size_t StringIndex::place(std::string_view text, uint64_t hash) const {
    for (size_t i = first_place(hash);; i = (i + 1) & (slots_.size() - 1)) {
        const Slot &slot = slots_[i];
        if (slot.number < 0 || (slot.tag == tag_of(hash) && (*strings_)[static_cast<size_t>(slot.number)] == text))
            return i;
    }
}

int32_t StringIndex::find(std::string_view text) const {
    return text.empty() ? -1 : slots_[place(text, keyed_hash(text))].number;
}

void StringIndex::find_all(std::span<const std::string_view> texts, std::span<int32_t> numbers) const {
    uint64_t hashes[kBatch];
    for (size_t first = 0; first < texts.size(); first += kBatch) {
        const size_t count = std::min(kBatch, texts.size() - first);
        const auto likely = [&](size_t i) { return slots_[first_place(hashes[i])].number; }; // without a collision
        for (size_t i = 0; i < count; ++i) {
            hashes[i] = keyed_hash(texts[first + i]);
            __builtin_prefetch(&slots_[first_place(hashes[i])]);
        }
        for (size_t i = 0; i < count; ++i)
            if (likely(i) >= 0)
                strings_->prefetch_place(static_cast<size_t>(likely(i)));
        for (size_t i = 0; i < count; ++i)
            if (likely(i) >= 0)
                strings_->prefetch_text(static_cast<size_t>(likely(i)));
        for (size_t i = 0; i < count; ++i)
            numbers[first + i] = texts[first + i].empty() ? -1 : slots_[place(texts[first + i], hashes[i])].number;
    }
}

} // namespace muser::text
