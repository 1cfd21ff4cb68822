// SentencePiece's BPE (tokenizer.ggml.model = "llama"): of all neighbours that make a piece, those that make the one
// of the best score merge first, the leftmost among equals. What is left of characters without a piece becomes byte
// tokens, or the unknown token, or nothing.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/pieces.h"

namespace muser::text {

class SpmEncoder {
  public:
    struct Fallback {
        std::vector<int32_t> bytes; // ids of the 256 byte tokens, or empty
        int32_t unknown = -1;       // -1: none
    };
    // scores: one a token, no NaN.
    SpmEncoder(Pieces pieces, std::vector<double> scores, Fallback fallback);

    // text: UTF-8. Any number of threads at once. Throws Error{parameter} for a word of more than kLongestWord.
    std::vector<int32_t> encode(std::string_view text) const;

    static constexpr size_t kLongestWord = 2'000'000; // characters; a merge takes some 50 bytes for each

  private:
    struct Work;
    void encode_word(std::string_view word, Work &work, std::vector<int32_t> &ids) const;
    void merge(std::string_view word, Work &work) const;
    bool starts_word(std::string_view text, size_t at) const;

    Pieces pieces_;
    std::vector<double> scores_;
    Fallback fallback_;
    // Characters after which a piece goes on with a space. Between any other character and a space nothing merges, so
    // the words between such places are independent.
    std::set<std::string, std::less<>> before_space_;
};

} // namespace muser::text
