#include "sample/truncation.h"

#include <array>
#include <cmath>

#include "sample/keep_mass.h"
#include "sample/weights.h"

namespace muser {

namespace {

__extension__ using Wide = unsigned __int128;

float distance(const Candidates &set, float logit) { return (set.best() - logit) * set.scale(); }

// Lanes so that the compiler may use vectors, and in a fixed order so that they give the same bits everywhere.
class LaneSum {
  public:
    void add(int32_t token, double x) { lanes_[static_cast<size_t>(token) % 8] += x; }
    double total() const {
        const auto &s = lanes_;
        return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    }

  private:
    std::array<double, 8> lanes_{};
};

} // namespace

void keep_top_k(Candidates &set, int32_t k) {
    if (static_cast<size_t>(k) < set.vocab())
        set.keep_best(static_cast<size_t>(k));
}

void keep_top_p(Candidates &set, double top_p) {
    uint64_t total = set.weigh();
    if (!set.is_list()) {
        // Tokens lighter than (1 - top_p) * total / n weigh less than (1 - top_p) * total together, so the others
        // hold the nucleus. The margin covers the rounding of log and exp.
        const double lightest = (1 - top_p) * double(total) / double(set.vocab()) / (1 << kWeightBits);
        set.keep_above(static_cast<float>(double(set.best()) + (std::log(lightest) - 0.01) / double(set.scale())));
        set.weigh();
    }
    const double target = top_p * double(total);
    keep_mass(
        set.list(), set.scratch(), [&](const Candidate &c) { return distance(set, c.logit); },
        [&](uint64_t sum) { return double(sum) >= target; });
}

void keep_min_p(Candidates &set, double log_min_p) {
    set.keep_above(static_cast<float>(double(set.best()) + log_min_p / double(set.scale())));
}

double mean_distance(Candidates &set, uint64_t total) {
    Wide sum = 0;
    for (const Candidate &c : set.list())
        if (c.weight > 0) // then it is below 21
            sum += static_cast<Wide>(c.weight) * static_cast<uint64_t>(distance(set, c.logit) * 1048576.0f);
    return double(sum) / double(static_cast<Wide>(total) << 20);
}

void keep_typical(Candidates &set, double typical_p) {
    set.list();
    const uint64_t total = set.weigh();
    const double mean = mean_distance(set, total);
    const double target = typical_p * double(total);
    keep_mass(
        set.list(), set.scratch(), [&](const Candidate &c) { return std::abs(double(distance(set, c.logit)) - mean); },
        [&](uint64_t sum) { return double(sum) > target; });
    set.removed();
}

void keep_top_n_sigma(Candidates &set, double n) {
    const double best = set.best();
    LaneSum sum, squares;
    size_t count = 0;
    set.each([&](int32_t token, float logit) {
        const double d = double(logit) - best;
        sum.add(token, d);
        squares.add(token, d * d);
        ++count;
    });
    const double mean = sum.total() / double(count);
    const double variance = squares.total() / double(count) - mean * mean;
    const double bound = -(n * std::sqrt(std::max(0.0, variance)));
    // With a margin for the rounding to float32; the exact comparison follows.
    set.keep_above(static_cast<float>(best + bound - 1e-6 * (std::abs(best) - bound)));
    set.keep_if([&](const Candidate &c) { return double(c.logit) - best >= bound; });
}

} // namespace muser
