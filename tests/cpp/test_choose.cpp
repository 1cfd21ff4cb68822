// Choosing without all logits: what choose() names is the first maximum of the logits that head() gives.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "device/cpu/cpu_device.h"
#include "device/cpu/level.h"
#include "matmul_cases.h"

using namespace muser;
using namespace muser::cpu;
using namespace muser::cpu::testing;

namespace {

constexpr uint32_t kVocab = 5003, kWidth = 96, kTokens = 24;
constexpr size_t kBlock = 34, kRowBytes = kWidth / 32 * kBlock; // of Q8_0

int32_t first_maximum(std::span<const float> logits) {
    if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); }))
        return -1;
    const auto best = std::max_element(logits.begin(), logits.end());
    return *best == -INFINITY ? -1 : static_cast<int32_t>(best - logits.begin());
}

// A head over embeddings, without a layer between.
class Head {
  public:
    Head(const Matrix &head, std::vector<float> embeddings, int threads, Level level)
        : embeddings_(std::move(embeddings)), ones_(kWidth, 1.0f), device_(make_cpu_device(threads, level)) {
        head_ = device_->load_weight(head.view(), WeightUse::head);
        embed_ = device_->load_weight(floats("embed", embeddings_, kTokens), WeightUse::lookup);
        norm_ = device_->load_weight(floats("norm", ones_, 1), WeightUse::vector);
        WorkspaceSpec spec{4, 4, 0, kVocab, {}};
        std::fill(std::begin(spec.widths), std::end(spec.widths), kWidth);
        device_->set_workspace(spec);
        kv_ = device_->make_kv({});
    }
    HeadSpec spec(float scale = 1, float softcap = 0, const Weight *bias = nullptr) const {
        return {norm_.get(), 1e-5f, head_.get(), bias, scale, softcap};
    }
    Device &device() { return *device_; }

    // Both ways, for these tokens side by side; the tokens chosen.
    std::vector<int32_t> choose(const std::vector<int32_t> &tokens, float scale = 1) {
        std::vector<int32_t> expected, chosen, wanted(tokens.size());
        std::iota(wanted.begin(), wanted.end(), 0);
        begin(tokens);
        device_->head(spec(scale), wanted);
        device_->commit_and_wait({});
        for (size_t i = 0; i < tokens.size(); ++i)
            expected.push_back(first_maximum(device_->logits(i)));
        begin(tokens);
        device_->choose(spec(scale), wanted);
        device_->commit_and_wait({});
        for (size_t i = 0; i < tokens.size(); ++i)
            chosen.push_back(device_->chosen(i));
        CHECK(chosen == expected);
        return chosen;
    }

  private:
    static TensorView floats(std::string_view name, const std::vector<float> &values, uint64_t rows) {
        return {name, BlockType::F32, rows, kWidth, std::as_bytes(std::span(values))};
    }
    void begin(const std::vector<int32_t> &tokens) {
        rows_.clear();
        for (const int32_t token : tokens)
            rows_.push_back({kv_.get(), token, 0});
        device_->begin(rows_, PassKind::decode);
        device_->embed(*embed_, EmbedOp::none, 0);
    }

    std::vector<float> embeddings_, ones_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Weight> head_, embed_, norm_;
    std::unique_ptr<KvStore> kv_;
    std::vector<Row> rows_;
};

Matrix random_head(std::mt19937 &rng) {
    Matrix m = random_matrix(BlockType::Q8_0, kVocab, kWidth, rng);
    for (size_t at = 0; at < m.data.size(); at += kBlock)
        m.data[at + 1] &= std::byte{0x7f};
    return m;
}

template <class F> void on_every_level(const F &f) {
    for (const Level level : available_levels())
        for (const int threads : {1, 2, 3}) {
            CAPTURE(level_name(level));
            CAPTURE(threads);
            f(level, threads);
        }
}

} // namespace

TEST_CASE("the first maximum of the logits, alone and in company") {
    on_every_level([](Level level, int threads) {
        std::mt19937 rng(31);
        Head head(random_head(rng), random_rows(kTokens, kWidth, rng), threads, level);
        REQUIRE(head.device().can_choose(head.spec()));
        std::vector<int32_t> alone;
        for (int32_t token = 0; token < static_cast<int32_t>(kTokens); ++token)
            alone.push_back(head.choose({token}, token % 2 ? 0.37f : 1.0f).front());
        for (int32_t token = 0; token < static_cast<int32_t>(kTokens) - 4; ++token)
            for (const size_t width : {2, 3, 4}) {
                std::vector<int32_t> tokens(width);
                std::iota(tokens.begin(), tokens.end(), token);
                CHECK(std::ranges::equal(head.choose(tokens), std::span(alone).subspan(static_cast<size_t>(token), width)));
            }
    });
}

TEST_CASE("the first of equal ones, wherever threads meet them") {
    on_every_level([](Level level, int threads) {
        std::mt19937 rng(32);
        Matrix m = random_head(rng);
        for (const uint32_t copies : {2u, 5u, kVocab}) // the last: all rows are equal
            for (uint32_t i = 0; i < copies; ++i)
                std::copy_n(m.data.begin() + 4711 * kRowBytes, kRowBytes, m.data.begin() + (copies == kVocab ? i : kVocab - 1 - 911 * i) * kRowBytes);
        Head head(m, random_rows(kTokens, kWidth, rng), threads, level);
        for (int32_t token = 0; token < static_cast<int32_t>(kTokens); ++token)
            CHECK(head.choose({token}) == std::vector<int32_t>{0});
    });
}

TEST_CASE("nothing of a row with a NaN or without a finite activation") {
    on_every_level([](Level level, int threads) {
        std::mt19937 rng(33);
        std::vector<float> rows = random_rows(kTokens, kWidth, rng);
        rows[3 * kWidth + 50] = std::nanf("");
        Head head(random_head(rng), rows, threads, level);
        CHECK(head.choose({3}) == std::vector<int32_t>{-1});
        const std::vector<int32_t> chosen = head.choose({2, 3, 4});
        CHECK(chosen[1] == -1);
        CHECK(chosen[0] >= 0);
        CHECK(chosen[2] >= 0);
    });
}

TEST_CASE("not of a head whose order is not that of its products, or without bounds") {
    std::mt19937 rng(34);
    const Matrix m = random_head(rng);
    const std::vector<float> rows = random_rows(kTokens, kWidth, rng);
    Head head(m, rows, 2, available_levels().back());
    Device &device = head.device();
    CHECK(device.can_choose(head.spec(0.5f)));
    CHECK_FALSE(device.can_choose(head.spec(1, 30)));
    CHECK_FALSE(device.can_choose(head.spec(0)));
    CHECK_FALSE(device.can_choose(head.spec(-1)));
    CHECK_FALSE(device.can_choose(head.spec(INFINITY)));
    const std::unique_ptr<Weight> bias = device.load_weight(m.view(), WeightUse::head);
    CHECK_FALSE(device.can_choose(head.spec(1, 0, bias.get())));

    Matrix negative = m;
    negative.data[kRowBytes * 99 + 1] |= std::byte{0x80};
    Head other(negative, rows, 2, available_levels().back());
    CHECK_FALSE(other.device().can_choose(other.spec()));
    const Matrix floats = random_matrix(BlockType::F16, kVocab, kWidth, rng);
    Head third(floats, rows, 2, available_levels().back());
    CHECK_FALSE(third.device().can_choose(third.spec()));
}
