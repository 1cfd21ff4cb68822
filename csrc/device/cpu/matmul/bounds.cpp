#include "device/cpu/matmul/bounds.h"

#include <cstring>

#include "device/cpu/matmul/activations.h"

namespace muser::cpu {

void bound_row(std::byte *record, uint64_t cols) {
    const RowLayout layout(cols);
    const float rounding = static_cast<float>(4 * layout.blocks + 8) * 0x1p-16f;
    for (size_t b = 0; b < layout.blocks; ++b) {
        int8_t a[32];
        std::memcpy(a, record + 32 * b, sizeof a);
        int positive = 0, sum = 0;
        for (const int value : a) {
            positive += value > 0 ? value : 0;
            sum += value;
        }
        float scale;
        std::memcpy(&scale, record + layout.scale + 4 * b, sizeof scale);
        const auto magnitudes = static_cast<float>(2 * positive - sum);
        const float bound = scale * (static_cast<float>(15 * positive) + rounding * magnitudes) + 0x1p-100f;
        std::memcpy(record + layout.sum + 4 * b, &bound, sizeof bound);
    }
}

} // namespace muser::cpu
