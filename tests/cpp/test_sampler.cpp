// The same tokens on every machine: random chains over random rows must give one known number. tests/sampler_oracle.py
// says that the tokens are right; this runs also where there is no Python, under emulation and under the sanitizers.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/error.h"
#include "sample/hash.h"
#include "sample/sampler.h"
#include "sample/state.h"

using namespace muser;

namespace {

// Integers and their quotients by powers of two: the same everywhere.
class Dice {
  public:
    explicit Dice(uint64_t seed) : stream_(seed, Stream::distribution) {}
    uint64_t below(uint64_t n) { return stream_.below(n); }
    bool one_in(uint64_t n) { return below(n) == 0; }
    double part() { return double(1 + below(1023)) / 1024; } // (0, 1)

  private:
    RandomStream stream_;
};

SamplerParams random_params(Dice &dice) {
    SamplerParams p;
    auto maybe = [&](double value, double off) { return dice.one_in(3) ? value : off; };
    p.temperature = dice.one_in(20) ? 0 : maybe(3 * dice.part(), 1);
    p.dynatemp_range = maybe(2 * dice.part(), 0);
    p.dynatemp_exponent = 3 * dice.part();
    p.repetition_penalty = maybe(2 * dice.part(), 1);
    p.presence_penalty = maybe(4 * dice.part() - 2, 0);
    p.frequency_penalty = maybe(2 * dice.part() - 1, 0);
    p.penalty_last_n = static_cast<int32_t>(dice.below(12)) - 1;
    p.dry_multiplier = maybe(3 * dice.part(), 0);
    p.dry_base = 1 + dice.part();
    p.dry_allowed_length = static_cast<int32_t>(dice.below(4));
    p.dry_penalty_last_n = static_cast<int32_t>(dice.below(40)) - 1;
    for (uint64_t n = dice.below(3); n > 0; --n) { // one throw a statement: arguments have no order
        const size_t length = 1 + dice.below(2);
        p.dry_breakers.emplace_back(length, static_cast<int32_t>(dice.below(4)));
    }
    for (uint64_t n = dice.below(3); n > 0; --n) {
        const auto token = static_cast<int32_t>(dice.below(4));
        p.logit_bias.emplace_back(token, 8 * dice.part() - 4);
    }
    for (size_t i = p.samplers.size(); i > 1; --i)
        std::swap(p.samplers[i - 1], p.samplers[dice.below(i)]);
    if (dice.one_in(3)) {
        p.mirostat = 1 + static_cast<int32_t>(dice.below(2));
        p.mirostat_tau = 6 * dice.part();
        p.mirostat_eta = dice.part();
    } else {
        p.top_n_sigma = maybe(3 * dice.part(), 0);
        p.top_k = static_cast<int32_t>(maybe(double(dice.below(50)), 0));
        p.typical_p = maybe(dice.part(), 1);
        p.top_p = maybe(dice.part(), 1);
        p.min_p = maybe(dice.part(), 0);
        p.xtc_probability = maybe(dice.part(), 0);
        p.xtc_threshold = dice.part() / 2;
        p.adaptive_target = maybe(dice.part(), -1);
    }
    p.seed = dice.below(1000);
    return p;
}

std::vector<float> random_row(Dice &dice, size_t vocab) {
    const uint64_t kind = dice.below(4);
    std::vector<float> row(vocab);
    for (float &x : row) {
        // A sum of three is near enough to a normal distribution; kind 1 has many ties.
        const uint64_t sum = dice.below(1 << 16) + dice.below(1 << 16) + dice.below(1 << 16); // in any order
        x = kind == 1 ? float(sum >> 14) : float(sum) / 8192 - 12;
        if (kind == 2 && !dice.one_in(10))
            x = -std::numeric_limits<float>::infinity();
    }
    row[4] = kind == 3 ? 20.0f : 1.0f;
    return row;
}

} // namespace

TEST_CASE("random chains give the same tokens on every machine") {
    Dice dice(2026);
    Hash hash;
    for (int round = 0; round < 1500; ++round) {
        const auto params = random_params(dice);
        const auto row = random_row(dice, 5 + dice.below(300));
        Sampler sampler(params), restored(params);
        for (int n = 0; n < 30; ++n) {
            const auto token = static_cast<int32_t>(dice.below(4));
            sampler.accept({&token, 1});
        }
        for (int n = 0; n < 4; ++n)
            hash.add(static_cast<uint64_t>(sampler.sample(row)));
        const auto state = save_state(sampler);
        for (uint8_t byte : state)
            hash.add_byte(byte);
        restore_state(restored, state);
        Sampler copy(sampler);
        const int32_t next = sampler.sample(row);
        CHECK(restored.sample(row) == next);
        CHECK(copy.sample(row) == next);
    }
    CHECK(hash.value() == 6115644433718672581u); // another number: the rules changed, or a machine differs
}

TEST_CASE("a damaged state changes nothing") {
    SamplerParams params;
    params.dry_multiplier = 1;
    Sampler sampler(params);
    const std::vector<int32_t> tokens{1, 2, 3};
    sampler.accept(tokens);
    const auto good = save_state(sampler);
    for (size_t at = 0; at < good.size(); at += 7) {
        auto bad = good;
        bad[at] ^= 0x40;
        CHECK_THROWS_AS(restore_state(sampler, bad), Error);
        CHECK_THROWS_AS(restore_state(sampler, std::span(good).first(at)), Error);
    }
    CHECK(save_state(sampler) == good);
}
