#include "sample/params.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "sample/hash.h"

namespace muser {

namespace {

constexpr double kMost = 3.4e38; // what float32 can hold

Error refused(const char *parameter, const std::string &rule, double value) {
    const std::string shown = std::to_string(value);
    return Error(ErrorCode::parameter, std::string(parameter) + " " + rule + ", not " + shown,
                 {{"parameter", parameter}, {"value", shown}});
}

void in(const char *parameter, double value, double low, double high, const char *rule) {
    if (!(value >= low && value <= high))
        throw refused(parameter, rule, value);
}

void positive(const char *parameter, double value, double high, const char *rule) {
    if (!(value > 0 && value <= high))
        throw refused(parameter, rule, value);
}

void last_n(const char *parameter, int32_t value) {
    if (value < -1)
        throw parameter_error(parameter, "must be at least 0, or -1 for all tokens", value);
}

void check_ranges(const SamplerParams &p) {
    in("temperature", p.temperature, 0, kMost, "must be finite and at least 0");
    in("dynatemp_range", p.dynatemp_range, 0, kMost, "must be finite and at least 0");
    positive("dynatemp_exponent", p.dynatemp_exponent, kMost, "must be finite and above 0");
    if (p.top_k < -1)
        throw parameter_error("top_k", "must be at least 1, or 0 or -1 for off", p.top_k);
    positive("top_p", p.top_p, 1, "must be above 0 and at most 1");
    in("min_p", p.min_p, 0, 1, "must be in 0..1");
    positive("typical_p", p.typical_p, 1, "must be above 0 and at most 1");
    in("top_n_sigma", p.top_n_sigma, 0, kMost, "must be finite and at least 0");
    in("xtc_probability", p.xtc_probability, 0, 1, "must be in 0..1");
    positive("xtc_threshold", p.xtc_threshold, 1, "must be above 0 and at most 1");
    positive("repetition_penalty", p.repetition_penalty, kMost, "must be finite and above 0");
    in("presence_penalty", p.presence_penalty, -kMost, kMost, "must be finite");
    in("frequency_penalty", p.frequency_penalty, -kMost, kMost, "must be finite");
    last_n("penalty_last_n", p.penalty_last_n);
    in("dry_multiplier", p.dry_multiplier, 0, kMost, "must be finite and at least 0");
    in("dry_base", p.dry_base, 1, kMost, "must be finite and at least 1");
    if (p.dry_allowed_length < 0)
        throw parameter_error("dry_allowed_length", "must be at least 0", p.dry_allowed_length);
    last_n("dry_penalty_last_n", p.dry_penalty_last_n);
    for (const auto &breaker : p.dry_breakers)
        if (breaker.empty())
            throw parameter_error("dry_sequence_breakers", "must hold sequences of at least one token", 0);
    if (p.mirostat < 0 || p.mirostat > 2)
        throw parameter_error("mirostat", "must be 0, 1 or 2", p.mirostat);
    in("mirostat_tau", p.mirostat_tau, 0, kMost, "must be finite and at least 0");
    in("mirostat_eta", p.mirostat_eta, 0, kMost, "must be finite and at least 0");
    in("adaptive_target", p.adaptive_target, -kMost, 1, "must be in 0..1, or negative for off");
    in("adaptive_decay", p.adaptive_decay, 0, 0.99, "must be in 0..0.99");
    for (const auto &[token, bias] : p.logit_bias) {
        if (token < 0)
            throw parameter_error("logit_bias", "must be of token ids, at least 0", token);
        if (!(bias <= kMost && (bias >= -kMost || std::isinf(bias))))
            throw refused("logit_bias", "must be finite, or -inf", bias);
    }
}

void check_company(const SamplerParams &p) {
    for (size_t i = 0; i < kStepNames.size(); ++i) {
        const auto step = static_cast<Step>(i);
        const std::string name(kStepNames[i]);
        const auto listed = std::count(p.samplers.begin(), p.samplers.end(), step);
        if (listed > 1)
            throw Error(ErrorCode::parameter, "samplers must not name " + name + " twice",
                        {{"parameter", "samplers"}, {"value", name}});
        if (listed == 0 && p.is_on(step))
            throw Error(ErrorCode::parameter, "samplers must hold \"" + name + "\", which is not off",
                        {{"parameter", "samplers"}, {"value", name}});
        const bool filter = step != Step::penalties && step != Step::dry && step != Step::temperature;
        if (p.mirostat != 0 && filter && p.is_on(step))
            throw Error(ErrorCode::parameter, "mirostat takes the place of " + name + ": leave that off",
                        {{"parameter", "mirostat"}, {"value", int64_t{p.mirostat}}});
    }
    if (p.mirostat != 0 && p.has_adaptive())
        throw Error(ErrorCode::parameter, "mirostat and adaptive_target both choose the token: leave one off",
                    {{"parameter", "mirostat"}, {"value", int64_t{p.mirostat}}});
}

} // namespace

bool SamplerParams::is_on(Step step) const {
    switch (step) {
    case Step::penalties: return has_penalties();
    case Step::dry: return has_dry();
    case Step::top_n_sigma: return top_n_sigma > 0;
    case Step::top_k: return top_k > 0;
    case Step::typical_p: return typical_p < 1;
    case Step::top_p: return top_p < 1;
    case Step::min_p: return min_p > 0;
    case Step::xtc: return has_xtc();
    case Step::temperature: return temperature != 0 && (temperature != 1 || dynatemp_range > 0);
    }
    return false;
}

std::vector<Step> parse_samplers(const std::vector<std::string> &names) {
    std::vector<Step> steps;
    for (const std::string &name : names) {
        const auto at = std::find(kStepNames.begin(), kStepNames.end(), name);
        if (at == kStepNames.end())
            throw Error(ErrorCode::parameter, "samplers must hold names of samplers, not \"" + name + "\"",
                        {{"parameter", "samplers"}, {"value", name}});
        steps.push_back(static_cast<Step>(at - kStepNames.begin()));
    }
    return steps;
}

void check(const SamplerParams &params) {
    check_ranges(params);
    check_company(params);
}

uint64_t fingerprint(const SamplerParams &p) {
    Hash hash;
    for (double value : {p.temperature, p.dynatemp_range, p.dynatemp_exponent, p.top_p, p.min_p, p.typical_p, p.top_n_sigma,
                         p.xtc_probability, p.xtc_threshold, p.repetition_penalty, p.presence_penalty, p.frequency_penalty,
                         p.dry_multiplier, p.dry_base, p.mirostat_tau, p.mirostat_eta, p.adaptive_target, p.adaptive_decay})
        hash.add(std::bit_cast<uint64_t>(value));
    for (int32_t value : {p.top_k, p.penalty_last_n, p.dry_allowed_length, p.dry_penalty_last_n, p.mirostat})
        hash.add(static_cast<uint64_t>(value));
    for (const auto &[token, bias] : p.logit_bias) {
        hash.add(static_cast<uint64_t>(token));
        hash.add(std::bit_cast<uint64_t>(bias));
    }
    for (Step step : p.samplers)
        hash.add(static_cast<uint64_t>(step));
    for (const auto &breaker : p.dry_breakers) {
        hash.add(breaker.size());
        for (int32_t token : breaker)
            hash.add(static_cast<uint64_t>(token));
    }
    hash.add(p.seed);
    return hash.value();
}

} // namespace muser
