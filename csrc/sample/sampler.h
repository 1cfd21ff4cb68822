// From one row of logits to one token. One sampler a slot: it owns its random stream.
// Chain of this stage: temperature 0 -> first maximum, no draw; else top_k -> top_p -> min_p -> temperature -> draw.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace muser {

struct SamplerParams {
    float temperature = 1.0f; // >= 0, finite
    int32_t top_k = 0;        // 0 or -1: off
    float top_p = 1.0f;       // (0, 1]
    float min_p = 0.0f;       // [0, 1]
    uint64_t seed = 0;
};

class Sampler {
  public:
    explicit Sampler(const SamplerParams &params); // throws Error{parameter}
    // Throws Error{parameter} ("logits", index of the bad value) for a NaN or a row that is all -inf. Exactly one draw a token, or none
    // at temperature 0.
    int32_t sample(std::span<const float> logits);
    const SamplerParams &params() const noexcept { return params_; }

  private:
    SamplerParams params_;
    std::mt19937 distribution_; // the "distribution" stream; later features get streams of their own
    struct Candidate { float logit; int32_t token; };
    std::vector<Candidate> scratch_;
};

} // namespace muser
