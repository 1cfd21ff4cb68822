#include "sample/temperature.h"

#include "sample/exact_math.h"
#include "sample/truncation.h"
#include "sample/weights.h"

namespace muser {

void apply_temperature(Candidates &set, const SamplerParams &params) {
    double temperature = params.temperature;
    if (params.dynatemp_range > 0) {
        const size_t n = set.count();
        if (n < 2)
            return;
        const uint64_t total = set.weigh();
        const double entropy = (exact_log(double(total)) - kWeightBits * kLn2) + mean_distance(set, total);
        const double share = std::clamp(entropy / exact_log(double(n)), 0.0, 1.0);
        const double low = std::max(0.0, temperature - params.dynatemp_range);
        const double high = temperature + params.dynatemp_range;
        temperature = low + (high - low) * exact_pow(share, params.dynatemp_exponent);
    }
    if (temperature > 0)
        set.scale_by(1 / temperature);
    else
        set.keep_best(1);
}

} // namespace muser
