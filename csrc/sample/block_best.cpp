#include "sample/block_best.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace muser {

namespace {

// Four floats and their comparisons: GCC and Clang turn them into vector instructions on every machine. Loops
// over plain arrays do not become any here, because a maximum of floats may not be reordered.
using Floats = float __attribute__((vector_size(16)));
using Masks = int32_t __attribute__((vector_size(16)));

Floats load(const float *x) {
    Floats f;
    std::memcpy(&f, x, sizeof f);
    return f;
}

Floats larger(Floats a, Floats b) { return a > b ? a : b; }

float best_of_64(const float *x) {
    Floats best[4] = {load(x), load(x + 4), load(x + 8), load(x + 12)};
    Masks nan = (best[0] != best[0]) | (best[1] != best[1]) | (best[2] != best[2]) | (best[3] != best[3]);
    for (size_t i = 16; i < kBlock; i += 16)
        for (size_t k = 0; k < 4; ++k) {
            const Floats next = load(x + i + 4 * k);
            best[k] = larger(best[k], next);
            nan |= next != next;
        }
    if (nan[0] | nan[1] | nan[2] | nan[3])
        return std::numeric_limits<float>::quiet_NaN();
    const Floats four = larger(larger(best[0], best[1]), larger(best[2], best[3]));
    return std::max(std::max(four[0], four[1]), std::max(four[2], four[3]));
}

} // namespace

float best_of_block(std::span<const float> block) {
    if (block.size() == kBlock)
        return best_of_64(block.data());
    float best = -kInfinity;
    for (float value : block) {
        if (std::isnan(value))
            return value;
        best = std::max(best, value);
    }
    return best;
}

} // namespace muser
