#include "sample/token_mask.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "core/error.h"

namespace muser {

namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

using Bits = uint32_t __attribute__((vector_size(16))); // of four logits

// All ones where the bit is set.
constexpr auto kLanes = [] {
    std::array<std::array<uint32_t, 4>, 16> lanes{};
    for (uint32_t bits = 0; bits < 16; ++bits)
        for (uint32_t i = 0; i < 4; ++i)
            lanes[bits][i] = (bits >> i & 1) != 0 ? ~uint32_t{0} : 0;
    return lanes;
}();

void mask_32(const float *row, uint32_t word, float *into) {
    const Bits none = {0xff800000u, 0xff800000u, 0xff800000u, 0xff800000u}; // -inf
    for (size_t i = 0; i < 32; i += 4) {
        Bits x, keep;
        std::memcpy(&x, row + i, sizeof x);
        std::memcpy(&keep, kLanes[word >> i & 15].data(), sizeof keep);
        x = (x & keep) | (none & ~keep);
        std::memcpy(into + i, &x, sizeof x);
    }
}

} // namespace

void mask_row(std::span<const float> row, std::span<const uint32_t> mask, std::vector<float> &into) {
    const size_t words = (row.size() + 31) / 32;
    if (mask.size() != words)
        throw parameter_error("mask", "must have " + std::to_string(words) + " words of 32 tokens", static_cast<int64_t>(mask.size()));
    into.resize(row.size());
    const size_t whole = row.size() / 32;
    for (size_t w = 0; w < whole; ++w) {
        if (mask[w] == 0)
            std::fill_n(into.data() + 32 * w, 32, kNone);
        else
            mask_32(row.data() + 32 * w, mask[w], into.data() + 32 * w);
    }
    for (size_t i = 32 * whole; i < row.size(); ++i)
        into[i] = (mask[i / 32] >> (i % 32) & 1) != 0 ? row[i] : kNone;
}

} // namespace muser
