// What a sampler can be told, with llama.cpp's defaults or off. Checked once, where a Sampler is made.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muser {

// The steps whose order is free. What is not listed is fixed: the mask, then logit_bias, before them; the draw
// (or mirostat, or adaptive-p) after them.
enum class Step { penalties, dry, top_n_sigma, top_k, typical_p, top_p, min_p, xtc, temperature };

inline constexpr std::array<std::string_view, 9> kStepNames{
    "penalties", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc", "temperature"};

struct SamplerParams {
    double temperature = 1.0;       // >= 0, finite; 0: the first maximum
    double dynatemp_range = 0.0;    // >= 0; 0: off
    double dynatemp_exponent = 1.0; // > 0
    int32_t top_k = 0;              // 0 or -1: off
    double top_p = 1.0;             // (0, 1]
    double min_p = 0.0;             // [0, 1]
    double typical_p = 1.0;         // (0, 1]
    double top_n_sigma = 0.0;       // >= 0; 0: off
    double xtc_probability = 0.0;   // [0, 1]
    double xtc_threshold = 0.1;     // (0, 1]; above 0.5: off

    double repetition_penalty = 1.0; // > 0
    double presence_penalty = 0.0;
    double frequency_penalty = 0.0;
    int32_t penalty_last_n = 64; // tokens looked at; 0: off, -1: all

    double dry_multiplier = 0.0; // >= 0; 0: off
    double dry_base = 1.75;      // >= 1
    int32_t dry_allowed_length = 2;
    int32_t dry_penalty_last_n = -1;                // as penalty_last_n
    std::vector<std::vector<int32_t>> dry_breakers; // token sequences over which no repetition reaches

    int32_t mirostat = 0; // 0: off, or version 1 or 2
    double mirostat_tau = 5.0;
    double mirostat_eta = 0.1;
    double adaptive_target = -1.0; // [0, 1]; negative: off
    double adaptive_decay = 0.9;   // [0, 0.99]

    std::vector<std::pair<int32_t, double>> logit_bias; // finite, or -inf: never
    std::vector<Step> samplers{Step::penalties, Step::dry,   Step::top_n_sigma, Step::top_k,      Step::typical_p,
                               Step::top_p,     Step::min_p, Step::xtc,         Step::temperature};
    uint64_t seed = 0;

    bool has_penalties() const {
        return penalty_last_n != 0 && (repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0);
    }
    bool has_dry() const { return dry_multiplier > 0 && dry_penalty_last_n != 0; }
    bool has_xtc() const { return xtc_probability > 0 && xtc_threshold <= 0.5; }
    bool has_adaptive() const { return adaptive_target >= 0; }
    bool is_on(Step step) const; // whether that step does anything
};

std::vector<Step> parse_samplers(const std::vector<std::string> &names); // Error{parameter "samplers"}

// Error{parameter} for a value out of its range, for a step that is on and not in `samplers`, and for filters
// beside mirostat or adaptive_target beside it: nothing that was asked for is silently left out.
void check(const SamplerParams &params);

// A number that two equal sets of parameters share, and hardly any others.
uint64_t fingerprint(const SamplerParams &params);

} // namespace muser
