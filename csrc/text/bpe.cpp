#include "text/bpe.h"

#include <algorithm>
#include <bit>

#include "text/keyed_hash.h"
#include "text/utf8.h"

namespace muser::text {

namespace {

struct Symbol {
    int32_t token;
    int32_t previous, next; // indices; -1: none
};

struct Candidate {
    uint32_t rank;
    int32_t left; // index of the left symbol
    int32_t result;
    bool operator<(const Candidate &other) const { // the best is the largest
        return rank != other.rank ? rank > other.rank : left > other.left;
    }
};

} // namespace

// In batches, so that the cache misses of many look-ups overlap: half a million merges have two million of them. What
// a merge gives is seldom looked up: a vocabulary that was trained by merging lists its pieces in the order of the merges.
BpeEncoder::BpeEncoder(Pieces pieces, const Strings &merges, bool ignore_merges)
    : pieces_(std::move(pieces)), ignore_merges_(ignore_merges), slots_(std::bit_ceil(2 * merges.size() + 2)) {
    merges_.reserve(merges.size());
    constexpr size_t kBatch = 32;
    std::string unions[kBatch];
    std::string_view texts[3 * kBatch]; // left and right of each merge, then the unions that must be looked up
    int32_t tokens[3 * kBatch];
    int32_t next = 0; // the piece behind the result of the merge before
    for (size_t first = 0; first < merges.size(); first += kBatch) {
        const size_t count = std::min(kBatch, merges.size() - first);
        int32_t results[kBatch];
        size_t n_texts = 2 * count;
        for (size_t i = 0; i < count; ++i, ++next) {
            const std::string_view merge = merges[first + i];
            const size_t space = std::min(merge.find(' '), merge.size());
            const std::string_view left = merge.substr(0, space), right = merge.substr(std::min(space + 1, merge.size()));
            texts[2 * i] = left;
            texts[2 * i + 1] = right;
            results[i] = next;
            if (!pieces_.is_union(next, left, right)) {
                results[i] = -1;
                texts[n_texts++] = unions[i].assign(left).append(right);
            }
        }
        pieces_.find_all({texts, n_texts}, {tokens, n_texts});
        for (size_t i = 0, looked_up = 2 * count; i < count; ++i)
            if (results[i] < 0)
                results[i] = tokens[looked_up++];
        next = results[count - 1] + 1;
        for (size_t i = 0; i < count; ++i)
            __builtin_prefetch(&slots_[first_place(tokens[2 * i], tokens[2 * i + 1])]);
        for (size_t i = 0; i < count; ++i) {
            const int32_t left = tokens[2 * i], right = tokens[2 * i + 1];
            if (std::min({left, right, results[i]}) < 0) {
                broken_ = first + i;
                return;
            }
            const size_t slot = place(left, right);
            merges_.push_back({left, right, results[i]});
            slots_[slot] = static_cast<uint32_t>(merges_.size());
        }
    }
}

size_t BpeEncoder::first_place(int32_t left, int32_t right) const {
    return keyed_hash(uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right)) & (slots_.size() - 1);
}

size_t BpeEncoder::place(int32_t left, int32_t right) const {
    for (size_t i = first_place(left, right);; i = (i + 1) & (slots_.size() - 1)) {
        if (slots_[i] == 0)
            return i;
        const Merge &merge = merges_[slots_[i] - 1];
        if (merge.left == left && merge.right == right)
            return i;
    }
}

std::optional<uint32_t> BpeEncoder::find(int32_t left, int32_t right) const {
    const uint32_t found = slots_[place(left, right)];
    return found == 0 ? std::nullopt : std::optional(found - 1);
}

void BpeEncoder::encode(std::string_view word, std::vector<int32_t> &ids) const {
    if (ignore_merges_)
        if (const int32_t token = pieces_.find(word); token >= 0)
            return ids.push_back(token);

    std::vector<Symbol> symbols;
    symbols.reserve(word.size());
    for (size_t at = 0; at < word.size();) {
        const size_t n = std::min(character_bytes(word[at]), word.size() - at);
        const auto index = static_cast<int32_t>(symbols.size());
        if (const int32_t token = pieces_.find(word.substr(at, n)); token >= 0)
            symbols.push_back({token, index - 1, index + 1});
        at += n;
    }
    if (symbols.empty())
        return;
    symbols.back().next = -1;

    std::vector<Candidate> queue;
    const auto push = [&](int32_t left) {
        if (left < 0 || symbols[static_cast<size_t>(left)].next < 0)
            return;
        const Symbol &symbol = symbols[static_cast<size_t>(left)];
        if (const auto rank = find(symbol.token, symbols[static_cast<size_t>(symbol.next)].token)) {
            queue.push_back({*rank, left, merges_[*rank].result});
            std::push_heap(queue.begin(), queue.end());
        }
    };
    for (size_t i = 0; i < symbols.size(); ++i)
        push(static_cast<int32_t>(i));
    while (!queue.empty()) {
        std::pop_heap(queue.begin(), queue.end());
        const Candidate best = queue.back();
        queue.pop_back();
        Symbol &left = symbols[static_cast<size_t>(best.left)];
        if (left.token < 0 || left.next < 0)
            continue; // merged into its left neighbour meanwhile, or the last one now
        Symbol &right = symbols[static_cast<size_t>(left.next)];
        if (find(left.token, right.token) != best.rank)
            continue;
        left.token = best.result;
        right.token = -1;
        left.next = right.next;
        if (left.next >= 0)
            symbols[static_cast<size_t>(left.next)].previous = best.left;
        push(best.left);
        push(left.previous);
    }
    for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
        ids.push_back(symbols[static_cast<size_t>(i)].token);
}

} // namespace muser::text
