// A pass of the CPU device that pauses between its steps: its bits, those of the passes that run meanwhile, and what is
// left when it is given up.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>
#include <thread>

#include "toy_layer.h"

using namespace muser;
using namespace muser::test;

namespace {

constexpr uint32_t kRows = 384;

std::vector<Row> rows_of(KvStore &kv, const std::vector<int> &tokens) {
    std::vector<Row> rows;
    for (size_t t = 0; t < tokens.size(); ++t)
        rows.push_back({&kv, tokens[t], int32_t(t)});
    return rows;
}

Floats logits_of(Device &device, size_t n) {
    Floats all;
    for (size_t i = 0; i < n; ++i)
        all.insert(all.end(), device.logits(i).begin(), device.logits(i).end());
    return all;
}

// Up to four sequences that decode one token of theirs at a time.
class Decoders {
  public:
    Decoders(Toy &toy, const Values &values, const Switches &switches) : toy_(toy) {
        for (uint32_t i = 0; i < kRowsBeside; ++i) {
            tokens_.push_back(some_tokens(kRows, 10 + i));
            expected_.push_back(Toy(values, switches, 1, kRows).prefill(tokens_[i], kRows));
            kv_.push_back(toy.session());
        }
    }

    // One pass of n of them, on a thread of its own as in an engine; true when all logits are those of a sequence alone.
    bool decode(size_t n) {
        bool right = true;
        std::thread([&] {
            std::vector<Row> rows;
            std::vector<int32_t> wanted;
            for (size_t i = 0; i < n; ++i) {
                wanted.push_back(int32_t(i));
                rows.push_back({kv_[i].get(), tokens_[i][at_[i]], int32_t(at_[i])});
            }
            toy_.record(rows, wanted, PassKind::decode);
            toy_.device().commit_and_wait({});
            for (size_t i = 0; i < n; ++i)
                right = right && same_bits(toy_.device().logits(i), std::span(expected_[i]).subspan(at_[i]++ * kVocab, kVocab));
        }).join();
        return right;
    }

  private:
    Toy &toy_;
    std::vector<std::vector<int>> tokens_;
    std::vector<Floats> expected_;
    std::vector<std::unique_ptr<KvStore>> kv_;
    size_t at_[kRowsBeside] = {};
};

std::vector<int32_t> all_of(size_t n) {
    std::vector<int32_t> indices(n);
    for (size_t i = 0; i < n; ++i)
        indices[i] = int32_t(i);
    return indices;
}

} // namespace

TEST_CASE("a pass that pauses after each step, and what runs beside it, have the bits of passes that run alone") {
    const Values values(1);
    for (const Switches &switches : {kLlama, kGemma, kMuse})
        for (int threads : {1, 2, 5})
            for (int n : {1, 3, 40, int(kRows)}) { // rows of every thread's own, shared, and a thread's turns
                CAPTURE(threads);
                CAPTURE(n);
                const std::vector<int> tokens = some_tokens(n);
                Toy toy(values, switches, threads, kRows);
                const Floats expected = toy.prefill(tokens, n);
                Decoders decoders(toy, values, switches);
                auto kv = toy.session();
                const auto rows = rows_of(*kv, tokens);
                toy.record(rows, all_of(rows.size()));
                size_t pauses = 0;
                toy.device().commit_pausing({}, {[] { return true; }, [&] { CHECK(decoders.decode(1 + pauses++ % kRowsBeside)); }});
                CHECK(pauses >= 3);
                CHECK(same_bits(logits_of(toy.device(), rows.size()), expected));
                CHECK(decoders.decode(4)); // in the usual place again
            }
}

TEST_CASE("a pass that is given up at any pause leaves the device as it was") {
    const Values values(2);
    const std::vector<int> tokens = some_tokens(40);
    Toy toy(values, kMuse, 2, kRows);
    const Floats expected = toy.prefill(tokens, 40);
    Decoders decoders(toy, values, kMuse);
    for (size_t last = 1;; ++last) {
        auto kv = toy.session();
        const auto rows = rows_of(*kv, tokens);
        toy.record(rows, all_of(rows.size()));
        size_t pauses = 0;
        bool given_up = false;
        try {
            toy.device().commit_pausing({}, {[] { return true; }, [&] {
                if (++pauses == last)
                    throw std::runtime_error("enough");
            }});
        } catch (const std::runtime_error &) {
            given_up = true;
        }
        if (!given_up)
            break;
        CHECK(decoders.decode(1)); // before and after another prefill took the place of the one given up
        CHECK(same_bits(toy.prefill(tokens, 40), expected));
        CHECK(decoders.decode(2));
    }
}

TEST_CASE("a pause does not count towards the deadline, and nobody asks for one after the last step") {
    const Values values(3);
    const std::vector<int> tokens = some_tokens(40);
    Toy toy(values, kLlama, 2, kRows);
    auto kv = toy.session();
    const auto rows = rows_of(*kv, tokens);
    toy.record(rows, {0});
    size_t pauses = 0, asked = 0;
    const auto wanted = [&] { return ++asked == 2; };
    const auto pause = [&] {
        ++pauses;
        std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    };
    toy.device().commit_pausing(Clock::now() + std::chrono::seconds(1), {wanted, pause});
    CHECK(pauses == 1);
    const size_t steps = asked + 1;
    toy.record(rows, {0});
    asked = 0;
    toy.device().commit_pausing({}, {[&] { return ++asked > 0; }, [] {}});
    CHECK(asked + 1 == steps);
}
