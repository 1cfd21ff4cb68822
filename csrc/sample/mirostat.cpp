#include "sample/mirostat.h"

#include "sample/exact_math.h"
#include "sample/weights.h"

namespace muser {

namespace {

constexpr size_t kZipfTokens = 100;

size_t zipf_count(Candidates &set, double mu) {
    const auto &ranked = set.best_ranked(kZipfTokens);
    const size_t n = set.count();
    if (n < 2)
        return n;
    double tb = 0, tt = 0;
    for (size_t i = 0; i + 1 < ranked.size(); ++i) {
        const double t = exact_log(double(i + 2) / double(i + 1));
        const double b = (double(ranked[i].logit) - double(ranked[i + 1].logit)) * double(set.scale());
        tb += t * b;
        tt += t * t;
    }
    const double s = tb / tt;
    const double epsilon = s - 1;
    const double log_vocab = exact_log(double(set.vocab()));
    const double fraction =
        std::abs(epsilon) < 1e-9 ? 1 / log_vocab : epsilon / (1 - exact_exp(-epsilon * log_vocab));
    const double numerator = mu * kLn2 + exact_log(fraction);
    if (s == 0)
        return numerator > 0 ? n : 1;
    const double log_k = numerator / s;
    if (log_k >= exact_log(double(n)))
        return n;
    return log_k > 0 ? static_cast<size_t>(exact_exp(log_k)) : 1;
}

void keep_unsurprising(Candidates &set, double mu) {
    const uint64_t total = set.weigh();
    const double bound = double(total) * exact_exp(-mu * kLn2);
    if (!set.is_list()) {
        // The same in logits, with a margin for the rounding of log and exp; the exact comparison follows.
        const double lightest = std::min(std::max(bound, 1.0) / (1 << kWeightBits), 1.0);
        set.keep_above(static_cast<float>(double(set.best()) + (std::log(lightest) - 0.01) / double(set.scale())));
    }
    const int32_t first = set.first_maximum();
    set.keep_if([&](const Candidate &c) { return c.token == first || (c.weight > 0 && double(c.weight) >= bound); });
}

} // namespace

int32_t choose_by_mirostat(Candidates &set, const SamplerParams &params, double &mu, RandomStream &stream) {
    if (params.mirostat == 1)
        set.keep_best(zipf_count(set, mu));
    else
        keep_unsurprising(set, mu);
    const uint64_t total = set.weigh();
    const int32_t token = set.at(stream.below(total));
    const uint32_t weight = set.weight_of(token);
    const double surprise = (exact_log(double(total)) - exact_log(double(weight))) / kLn2;
    mu -= params.mirostat_eta * (surprise - params.mirostat_tau);
    return token;
}

} // namespace muser
