#include "sample/sampler.h"

#include <cmath>
#include <string>

#include "core/error.h"
#include "sample/exact_math.h"
#include "sample/mirostat.h"
#include "sample/penalties.h"
#include "sample/temperature.h"
#include "sample/truncation.h"
#include "sample/xtc.h"

namespace muser {

namespace {

Error bad_logits(const std::string &what, const char *value, std::optional<int64_t> index = {}) {
    std::vector<Error::Field> fields{{"parameter", "logits"}, {"value", value}};
    if (index)
        fields.emplace_back("index", *index);
    return Error(ErrorCode::parameter, what, std::move(fields));
}

} // namespace

SamplerState::SamplerState(const SamplerParams &params)
    : distribution(params.seed, Stream::distribution), xtc(params.seed, Stream::xtc), mirostat(params.seed, Stream::mirostat),
      adaptive(params.seed, Stream::adaptive), mu(2 * params.mirostat_tau), adaptive_average(adaptive_start(params)),
      history(params) {}

Sampler::Sampler(const SamplerParams &params)
    : params_((check(params), params)), log_min_p_(params.min_p > 0 ? exact_log(params.min_p) : 0), state_(params), dry_(params) {}

void Sampler::accept(std::span<const int32_t> tokens) {
    for (int32_t token : tokens)
        state_.history.push(token);
}

int32_t Sampler::sample(std::span<const float> logits, AllowedTokens mask) {
    load(logits, mask);
    for (Step step : params_.samplers)
        if (params_.is_on(step) && (params_.temperature != 0 || step == Step::penalties || step == Step::dry))
            apply(step);
    const int32_t token = choose();
    state_.history.push(token);
    return token;
}

void Sampler::load(std::span<const float> logits, AllowedTokens mask) {
    if (logits.empty())
        throw bad_logits("logits is empty", "[]");
    if (const int64_t nan = set_.load(logits); nan >= 0)
        throw bad_logits("logits[" + std::to_string(nan) + "] is NaN", "nan", nan);
    if (set_.best() == -kInfinity)
        throw bad_logits("every logit is -inf: there is no token to choose", "-inf");
    if (mask) {
        mask_row(logits, *mask, row_);
        set_.load(row_);
    }
    for (int32_t token : suppressed_)
        if (float *logit = set_.find(token))
            *logit = -kInfinity;
    set_.edited();
    if (set_.best() == kInfinity) { // rare
        std::vector<float> certain(logits.size(), -kInfinity);
        set_.each([&](int32_t token, float logit) {
            if (logit == kInfinity)
                certain[static_cast<size_t>(token)] = 0;
        });
        row_ = std::move(certain);
        set_.load(row_);
    }
    if (!params_.logit_bias.empty())
        add_bias(set_, params_);
    if (set_.best() == -kInfinity)
        throw Error(ErrorCode::logits, "every token that mask, suppress and logit_bias allow has a logit of -inf");
}

void Sampler::apply(Step step) {
    const SamplerParams &p = params_;
    switch (step) {
    case Step::penalties: return penalize(set_, p, state_.history.counts());
    case Step::dry: return dry_.apply(set_, state_.history.dry_window());
    case Step::top_n_sigma: return keep_top_n_sigma(set_, p.top_n_sigma);
    case Step::top_k: return keep_top_k(set_, p.top_k);
    case Step::typical_p: return keep_typical(set_, p.typical_p);
    case Step::top_p: return keep_top_p(set_, p.top_p);
    case Step::min_p: return keep_min_p(set_, log_min_p_);
    case Step::xtc: return exclude_top_choices(set_, p.xtc_probability, p.xtc_threshold, state_.xtc);
    case Step::temperature: return apply_temperature(set_, p);
    }
}

int32_t Sampler::choose() {
    if (params_.temperature == 0)
        return set_.first_maximum();
    if (params_.mirostat != 0)
        return choose_by_mirostat(set_, params_, state_.mu, state_.mirostat);
    if (params_.has_adaptive())
        return choose_adaptively(set_, params_, state_.adaptive_average, state_.adaptive);
    return set_.at(state_.distribution.below(set_.weigh()));
}

} // namespace muser
