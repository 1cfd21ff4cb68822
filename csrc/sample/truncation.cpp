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
    const double target = top_p * double(set.weigh());
    auto key = [&](float logit) { return distance(set, logit); };
    auto reached = [&](uint64_t sum) { return double(sum) >= target; };
    const MassPrefix prefix = find_mass(
        [&](auto add) { set.each_weighed([&](float logit, uint32_t weight) { add(key(logit), weight); }); }, reached);
    if (!set.is_list()) { // of the row only what can be in the prefix; the margin covers rounding
        const double farthest = (double(prefix.bucket + 1) / 64 + 0.01) / double(set.scale());
        set.keep_above(prefix.bucket + 1 == kMassBuckets ? -kInfinity : static_cast<float>(double(set.best()) - farthest));
    }
    keep_mass(set.list(), set.scratch(), prefix, key, reached);
}

void keep_min_p(Candidates &set, double log_min_p) {
    set.keep_above(static_cast<float>(double(set.best()) + log_min_p / double(set.scale())));
}

double mean_distance(const Candidates &set, uint64_t total) {
    Wide sum = 0;
    set.each_weighed([&](float logit, uint32_t weight) { // then the distance is below 21, and 2^20 times it an integer below 2^25
        sum += static_cast<Wide>(static_cast<uint64_t>(weight) * static_cast<uint32_t>(distance(set, logit) * 1048576.0f));
    });
    return double(sum) / double(static_cast<Wide>(total) << 20);
}

void keep_typical(Candidates &set, double typical_p) {
    set.list();
    const uint64_t total = set.weigh();
    const double mean = mean_distance(set, total);
    const double target = typical_p * double(total);
    auto key = [&](float logit) { return std::abs(double(distance(set, logit)) - mean); };
    auto reached = [&](uint64_t sum) { return double(sum) > target; };
    const MassPrefix prefix = find_mass(
        [&](auto add) { set.each_weighed([&](float logit, uint32_t weight) { add(key(logit), weight); }); }, reached);
    keep_mass(set.list(), set.scratch(), prefix, key, reached);
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
