// IQ4_NL: 32 values, one scale, sixteen levels that are denser near zero. Nobody asks for it by name; it is
// what stands in for Q2_K and Q3_K where rows are no multiple of 256.
#include "gguf/dequant_blocks.h"
#include "quantize/blocks.h"
#include "quantize/lanes.h"

namespace muser::quantize {

namespace {

constexpr int kValues = 32;
constexpr int kSteps = 16;          // of the grid, for each sign of the scale
constexpr float kReach = 0.2f;      // of the grid: a fifth below and above the scale that spans the extreme value
constexpr int kRefinements = 4;

int nearest_level(float x) {
    int q = 0;
    for (int i = 0; i + 1 < 16; ++i) // branchless: how many midpoints lie below x
        q += x > 0.5f * static_cast<float>(gguf::kIq4Levels[i] + gguf::kIq4Levels[i + 1]);
    return q;
}

// The best scale for the levels that `inverse` gives.
float solved(const float *x, const float *weight, float inverse) {
    float squares = 0.0f, products = 0.0f;
    for (int i = 0; i < kValues; ++i) {
        const float level = gguf::kIq4Levels[nearest_level(x[i] * inverse)];
        squares += weight[i] * level * level;
        products += weight[i] * level * x[i];
    }
    return products / squares; // no level is zero
}

float error_of(const float *x, const float *weight, float scale) {
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    float error = 0.0f;
    for (int i = 0; i < kValues; ++i) {
        const float off = scale * gguf::kIq4Levels[nearest_level(x[i] * inverse)] - x[i];
        error += weight[i] * off * off;
    }
    return error;
}

float fit(const float *x, const float *weight) {
    const float extreme =
        *std::max_element(x, x + kValues, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    if (extreme == 0.0f)
        return 0.0f;
    float best = extreme / gguf::kIq4Levels[0];
    float best_error = error_of(x, weight, best);
    const auto consider = [&](float scale) {
        const float error = error_of(x, weight, scale);
        if (!(error < best_error))
            return false;
        best = scale;
        best_error = error;
        return true;
    };
    for (int step = 0; step <= kSteps && best_error > 0.0f; ++step) {
        const float stretch = 1.0f + kReach * (2.0f * static_cast<float>(step) / kSteps - 1.0f);
        consider(solved(x, weight, gguf::kIq4Levels[0] * stretch / extreme));
        consider(solved(x, weight, gguf::kIq4Levels[15] * stretch / extreme));
    }
    for (int i = 0; i < kRefinements && best_error > 0.0f; ++i)
        if (!consider(solved(x, weight, 1.0f / best)))
            break;
    return best;
}

} // namespace

void quantize_iq4_nl(const float *x, uint8_t *block, size_t n_blocks) {
    for (; n_blocks > 0; --n_blocks, x += kValues, block += 18) {
        float weight[kValues];
        importance<kValues>(x, weight);
        const uint16_t bits = bounded_half(fit(x, weight));
        const float d = gguf::half_to_float(bits);
        const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
        put_half(block, bits);
        for (int i = 0; i < 16; ++i)
            block[2 + i] = static_cast<uint8_t>(nearest_level(x[i] * inverse) | nearest_level(x[i + 16] * inverse) << 4);
    }
}

} // namespace muser::quantize
