// Byte-level BPE (tokenizer.ggml.model = "gpt2"), the merges: neighbours merge in the order of the file's list, the
// leftmost among equals. Cutting a text into words is the pre-tokenizer's business (muser/text/bpe.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/pieces.h"

namespace muser::text {

class BpeEncoder {
  public:
    // merges: "left right" each, the first the best; of two equal ones the later counts. ignore_merges: a word that
    // is itself a piece is one token, whatever the merges would give.
    BpeEncoder(Pieces pieces, const Strings &merges, bool ignore_merges);

    // The first merge that is not two pieces, with a space between, whose union is a piece too.
    std::optional<size_t> broken_merge() const { return broken_; }

    // Appends the ids of one word, spelled in the byte alphabet; characters without a piece are left out. Any number
    // of threads at once.
    void encode(std::string_view word, std::vector<int32_t> &ids) const;

  private:
    struct Merge {
        uint64_t pair = ~uint64_t{0}; // left << 32 | right; all ones: an empty slot
        uint32_t rank = 0;
        int32_t result = -1;
    };
    size_t first_place(uint64_t pair) const;
    size_t place(uint64_t pair) const; // where the pair is, or the empty slot where it would be
    const Merge *find(int32_t left, int32_t right) const;

    Pieces pieces_;
    bool ignore_merges_;
    std::vector<Merge> merges_; // a hash table: a power of two, at most half full
    std::optional<size_t> broken_;
};

} // namespace muser::text
