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
        int32_t left, right, result;
    };
    size_t first_place(int32_t left, int32_t right) const;
    size_t place(int32_t left, int32_t right) const; // where the pair is, or the empty slot where it would be
    std::optional<uint32_t> find(int32_t left, int32_t right) const; // the rank

    Pieces pieces_;
    bool ignore_merges_;
    std::vector<Merge> merges_; // by rank: the less memory is new, the sooner a first text is encoded
    std::vector<uint32_t> slots_; // a hash table of ranks + 1, 0 where empty: a power of two, at most half full
    std::optional<size_t> broken_;
};

} // namespace muser::text
