// Which tokens a grammar allows: one bit a token, token i at bit i % 32 of word i / 32.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace muser {

using AllowedTokens = std::optional<std::span<const uint32_t>>; // nothing: all

// The row with -inf for what is not allowed. Error{parameter "mask"} unless mask has ceil(vocab / 32) words.
void mask_row(std::span<const float> row, std::span<const uint32_t> mask, std::vector<float> &into);

} // namespace muser
