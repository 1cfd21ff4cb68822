// Attention on the CPU device, through the device interface: against plain double arithmetic, and the bits of
// every row under every chunking, thread count, level, neighbourhood and kind of plane.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "cpu_test_support.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/kv_planes.h"

using namespace muser;
using namespace muser::test;

namespace {

struct Shape {
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t queries() const { return n_heads * head_dim; }
    uint32_t keys() const { return n_kv_heads * head_dim; }
    float scale() const { return 1 / std::sqrt(float(head_dim)); }
    // An embedding row is [zeros | query | key | value]; the attention output lands on the zeros.
    uint32_t width() const { return 2 * queries() + 2 * keys(); }
};

// Token i of a script has row i of `table`, so queries, keys and values are exactly what the test chose.
struct Script {
    Shape shape;
    int n_tokens;
    Floats table;
    Script(Shape s, int n, uint32_t seed, float scale = 1.0f) : shape(s), n_tokens(n) {
        Random random(seed);
        for (int t = 0; t < n; ++t) {
            table.insert(table.end(), s.queries(), 0.0f);
            const Floats rest = random.normals(s.width() - s.queries(), scale);
            table.insert(table.end(), rest.begin(), rest.end());
        }
    }
    const float *query(int t) const { return &table[size_t(t) * shape.width() + shape.queries()]; }
    const float *key(int t) const { return query(t) + shape.queries(); }
    const float *value(int t) const { return key(t) + shape.keys(); }
};

// One layer of attention and nothing else, on a device of its own.
class Bench {
  public:
    Bench(const Script &script, int threads, uint32_t max_rows, cpu::Level level = cpu::choose_level())
        : script_(script), device_(make_cpu_device(threads, level)), max_rows_(max_rows),
          table_(*device_, script.table, script.n_tokens, script.shape.width(), WeightUse::lookup),
          query_(select(script.shape.queries(), script.shape.queries())),
          key_(select(2 * script.shape.queries(), script.shape.keys())),
          value_(select(2 * script.shape.queries() + script.shape.keys(), script.shape.keys())),
          ones_(*device_, Floats(script.shape.width(), 1.0f), 1, script.shape.width(), WeightUse::vector),
          back_(*device_, back(), script.shape.width(), script.shape.queries(), WeightUse::matrix) {
        const Shape s = script.shape;
        WorkspaceSpec spec{max_rows, 1, 2, 16, {}};
        for (auto [act, width] : {std::pair{Act::residual, s.width()}, {Act::normed, s.width()}, {Act::query, s.queries()},
                                  {Act::key, s.keys()}, {Act::value, s.keys()}, {Act::attention, s.queries()},
                                  {Act::branch, s.width()}})
            spec.widths[static_cast<size_t>(act)] = width;
        device_->set_workspace(spec);
    }

    // A plane full of NaN: whatever is read before it was written shows.
    std::unique_ptr<KvStore> plane(uint32_t rows, KvType type, bool ring = false) {
        const PlaneSpec spec{rows, script_.shape.n_kv_heads, script_.shape.head_dim, type, ring};
        auto kv = device_->make_kv({&spec, 1});
        const auto memory = static_cast<cpu::KvPlanes &>(*kv).memory();
        std::memset(memory.data(), 0xff, memory.size());
        return kv;
    }

    // Attention outputs of the rows, [rows, queries].
    Floats pass(const std::vector<Row> &rows, uint32_t window) {
        const Shape s = script_.shape;
        const AttentionSpec attention{0, s.n_heads, s.n_kv_heads, s.head_dim, s.scale(), window};
        device_->begin(rows, PassKind::prefill);
        device_->embed(*table_.get(), EmbedOp::none, 0);
        const Projection projections[] = {{query_.get(), nullptr, Act::query}, {key_.get(), nullptr, Act::key},
                                          {value_.get(), nullptr, Act::value}};
        device_->matmul(Act::residual, projections);
        device_->kv_store(attention);
        device_->attention(attention);
        const Projection out{back_.get(), nullptr, Act::branch};
        device_->matmul(Act::attention, {&out, 1});
        device_->residual_norm(nullptr, 0, nullptr, 0);
        device_->tap();
        device_->commit_and_wait({});
        Floats result;
        for (size_t r = 0; r < rows.size(); ++r) {
            const auto row = device_->taps(0).subspan(r * s.width(), s.queries());
            result.insert(result.end(), row.begin(), row.end());
        }
        return result;
    }

    // The whole script, `chunk` rows at a time, in one session. `leap`: rows 32 to 240 at once, which are far from the ends
    // of a segment of 256: single rows cost a pass each, and emulated ones dearly.
    Floats prefill(int chunk, uint32_t window, KvType type, uint32_t ring_rows = 0, bool leap = false) {
        auto kv = plane(ring_rows ? ring_rows : script_.n_tokens, type, ring_rows != 0);
        Floats all;
        for (int at = 0, end; at < script_.n_tokens; at = end) {
            end = std::min(leap && at == 32 ? 240 : at + chunk, script_.n_tokens);
            std::vector<Row> rows;
            for (int t = at; t < end; ++t)
                rows.push_back({kv.get(), t, t});
            const Floats part = pass(rows, window);
            all.insert(all.end(), part.begin(), part.end());
        }
        return all;
    }

  private:
    TestWeight select(uint32_t from, uint32_t n) {
        Floats matrix(size_t(n) * script_.shape.width());
        for (uint32_t i = 0; i < n; ++i)
            matrix[size_t(i) * script_.shape.width() + from + i] = 1.0f;
        return TestWeight(*device_, std::move(matrix), n, script_.shape.width(), WeightUse::matrix);
    }
    Floats back() const {
        Floats matrix(size_t(script_.shape.width()) * script_.shape.queries());
        for (uint32_t i = 0; i < script_.shape.queries(); ++i)
            matrix[size_t(i) * script_.shape.queries() + i] = 1.0f;
        return matrix;
    }

    const Script &script_;
    std::unique_ptr<Device> device_;
    uint32_t max_rows_;
    TestWeight table_, query_, key_, value_, ones_, back_;
};

// The definition of q8_0's rotation (device.h), in the order of sums that decides the last bit.
template <class T> void rotate(T *x, uint32_t n) {
    const uint32_t block = n & (~n + 1);
    for (uint32_t half = 1; half < block; half *= 2)
        for (uint32_t i = 0; i < n; ++i)
            if (!(i & half)) {
                const T a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
    for (uint32_t i = 0; i < n; ++i)
        x[i] *= 1 / std::sqrt(T(block));
}

// One head as a plane of the type gives it back.
std::vector<double> stored(const float *x, uint32_t n, KvType type) {
    std::vector<double> out(x, x + n);
    if (type == KvType::f16)
        for (double &v : out)
            v = round_to_half(v);
    if (type == KvType::q8_0) {
        Floats rotated(x, x + n);
        rotate(rotated.data(), n);
        for (uint32_t b = 0; b < n; b += 32) {
            float top = 0;
            for (uint32_t i = b; i < b + 32; ++i)
                top = std::max(top, std::abs(rotated[i]));
            const auto scale = static_cast<float>(round_to_half(top / 127));
            for (uint32_t i = b; i < b + 32; ++i)
                out[i] = scale > 0 ? double(std::clamp(std::nearbyint(rotated[i] * (1 / scale)), -127.0f, 127.0f)) * double(scale) : 0;
        }
        rotate(out.data(), n);
    }
    return out;
}

// The textbook, in double, over the keys and values as the plane holds them.
Floats reference(const Script &script, uint32_t window, KvType type) {
    const Shape s = script.shape;
    std::vector<double> keys, values;
    for (int t = 0; t < script.n_tokens; ++t)
        for (uint32_t i = 0; i < s.keys(); i += s.head_dim)
            for (auto [from, to] : {std::pair{script.key(t), &keys}, {script.value(t), &values}}) {
                const std::vector<double> head = stored(from + i, s.head_dim, type);
                to->insert(to->end(), head.begin(), head.end());
            }
    Floats out;
    std::vector<double> weights;
    for (int t = 0; t < script.n_tokens; ++t)
        for (uint32_t h = 0; h < s.n_heads; ++h) {
            const uint32_t at = h / (s.n_heads / s.n_kv_heads) * s.head_dim;
            const int first = window && t >= int(window) ? t - int(window) + 1 : 0;
            weights.clear();
            double top = -1e300, total = 0;
            for (int j = first; j <= t; ++j) {
                double score = 0;
                for (uint32_t d = 0; d < s.head_dim; ++d)
                    score += double(script.query(t)[h * s.head_dim + d]) * keys[size_t(j) * s.keys() + at + d];
                weights.push_back(score * double(s.scale()));
                top = std::max(top, weights.back());
            }
            for (double &w : weights)
                total += w = std::exp(w - top);
            for (uint32_t d = 0; d < s.head_dim; ++d) {
                double sum = 0;
                for (int j = first; j <= t; ++j)
                    sum += weights[j - first] * values[size_t(j) * s.keys() + at + d];
                out.push_back(float(sum / total));
            }
        }
    return out;
}

double worst_difference(const Floats &a, const Floats &b) {
    REQUIRE(a.size() == b.size());
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i)
        worst = std::isnan(a[i]) ? 1e9 : std::max(worst, double(std::abs(a[i] - b[i])));
    return worst;
}

} // namespace

TEST_CASE("attention equals its definition: head counts, head sizes, windows around a segment, all KV types") {
    for (Shape shape : {Shape{4, 2, 32}, {9, 3, 64}, {4, 2, 96}, {20, 1, 24}, {3, 3, 8}, {2, 1, 256}})
        for (uint32_t window : {0u, 1u, 16u, 255u, 256u, 257u})
            for (KvType type : {KvType::f16, KvType::f32, KvType::q8_0}) {
                if (shape.head_dim > 64 && window % 256 != 0)
                    continue; // large, and the window is not their point
                if (type == KvType::q8_0 && (shape.head_dim % 32 != 0 || (window != 0 && window != 255)))
                    continue; // behind its conversion the kernels are those of float planes
                const Script script(shape, 290, 7);
                Bench bench(script, 2, 512);
                CAPTURE(shape.n_heads);
                CAPTURE(shape.head_dim);
                CAPTURE(window);
                CHECK(worst_difference(bench.prefill(512, window, type), reference(script, window, type)) < 5e-6);
            }
}

TEST_CASE("a row's bits do not depend on chunking, threads or level") {
    const std::pair<Shape, KvType> cases[] = {{{4, 2, 16}, KvType::f16}, {{6, 2, 24}, KvType::f16}, {{3, 3, 8}, KvType::f16},
                                              {{18, 1, 8}, KvType::f16}, {{4, 2, 32}, KvType::q8_0}, {{2, 1, 96}, KvType::q8_0}};
    for (auto [shape, type] : cases) {
        const Script script(shape, 300, 8, 2.0f);
        const bool every_combination = shape.head_dim == 16;
        for (uint32_t window : {0u, 40u}) {
            if (type == KvType::q8_0 && (shape.head_dim == 96) != (window == 0))
                continue;
            const Floats expected = Bench(script, 1, 1, cpu::Level::portable).prefill(1, window, type);
            for (cpu::Level level : cpu::available_levels())
                for (int threads : {1, 2, 3, 5})
                    for (int chunk : {1, 7, 64, 300}) {
                        const bool slow = level == cpu::Level::portable;
                        if ((slow || !every_combination) && (chunk == 7 || threads % 2 == 0))
                            continue;
                        if (slow && !every_combination && threads + chunk != 304)
                            continue;
                        CAPTURE(cpu::level_name(level));
                        CAPTURE(threads);
                        CAPTURE(chunk);
                        const bool leap = chunk == 1 && !(threads == 2 && every_combination);
                        Bench bench(script, threads, static_cast<uint32_t>(std::max(chunk, 240)), level);
                        CHECK(same_bits(bench.prefill(chunk, window, type, 0, leap), expected));
                    }
        }
    }
}

TEST_CASE("a ring gives the bits of a growing plane, before and after it wraps") {
    for (KvType type : {KvType::f16, KvType::f32, KvType::q8_0}) {
        const Script script({4, 2, type == KvType::q8_0 ? 32u : 16u}, 500, 9);
        for (uint32_t window : {1u, 15u, 16u, 17u, 64u, 130u})
            for (int chunk : {1, 7, 60}) {
                if (type == KvType::q8_0 && window < 17)
                    continue;
                CAPTURE(window);
                CAPTURE(chunk);
                const uint32_t ring_rows = (window + static_cast<uint32_t>(chunk) + 63) / 64 * 64;
                Bench bench(script, 3, 512);
                const Floats expected = bench.prefill(512, window, type);
                CHECK(same_bits(bench.prefill(chunk, window, type, ring_rows), expected));
            }
    }
}

TEST_CASE("rows of several sessions in one pass give the bits they give alone") {
    for (uint32_t window : {0u, 33u}) {
        const KvType type = window ? KvType::f16 : KvType::q8_0;
        const Script script({6, 2, window ? 16u : 32u}, 600, 10);
        const size_t width = script.shape.queries();
        for (int threads : {1, 2, 5}) {
            Bench bench(script, threads, 600);
            const Floats alone = bench.prefill(600, window, type);
            std::vector<std::unique_ptr<KvStore>> sessions;
            for (int s = 0; s < 4; ++s) {
                sessions.push_back(bench.plane(600, type));
                std::vector<Row> history;
                for (int t = 0; t < 600; ++t)
                    history.push_back({sessions.back().get(), t, t});
                bench.pass(history, window);
            }
            Random random(window + static_cast<uint32_t>(threads));
            for (int round = 0; round < 50; ++round) {
                std::vector<Row> rows; // any depth each; some sessions bring several rows, as a verify does
                for (int s = random.below(3); s < 4; ++s)
                    for (int i = 0, at = random.below(590), n = random.below(3) ? 1 : 1 + random.below(9); i < n; ++i)
                        rows.push_back({sessions[s].get(), at + i, at + i});
                const Floats got = bench.pass(rows, window);
                for (size_t r = 0; r < rows.size(); ++r)
                    CHECK(same_bits(std::span(got).subspan(r * width, width),
                                    std::span(alone).subspan(rows[r].position * width, width)));
            }
        }
    }
}

TEST_CASE("a deep context shared among threads gives the bits of one thread") {
    for (auto [shape, type] : {std::pair{Shape{16, 1, 8}, KvType::f16}, {Shape{2, 1, 32}, KvType::q8_0}}) {
        const Script script(shape, 5200, 11);
        const Floats expected = Bench(script, 1, 512).prefill(512, 0, type);
        const size_t width = script.shape.queries();
        Bench bench(script, 5, 512);
        auto kv = bench.plane(5200, type);
        std::vector<Row> rows;
        for (int t = 0; t < 5184; t += 512) {
            rows.clear();
            for (int i = t; i < std::min(t + 512, 5184); ++i)
                rows.push_back({kv.get(), i, i});
            bench.pass(rows, 0);
        }
        for (int n : {1, 4, 16}) { // merged by every thread; shared by heads; in several waves
            rows.clear();
            for (int i = 5184; i < 5184 + n; ++i)
                rows.push_back({kv.get(), i, i});
            CHECK(same_bits(bench.pass(rows, 0), std::span(expected).subspan(5184 * width, n * width)));
        }
    }
}

TEST_CASE("planes refuse shapes that the layout cannot hold") {
    const auto refuses = [](PlaneSpec spec, const std::string &name) {
        try {
            cpu::KvPlanes::bytes({&spec, 1});
            FAIL_CHECK("accepted: " << name);
        } catch (const Error &error) {
            CHECK(error.code() == ErrorCode::parameter);
            CHECK(error.message().find(name) != std::string::npos);
        }
    };
    refuses({64, 1, 12, KvType::f16, false}, "head_dim");
    refuses({64, 1, 520, KvType::f16, false}, "head_dim");
    refuses({64, 1, 80, KvType::q8_0, false}, "head_dim");
    refuses({64, 0, 32, KvType::f16, false}, "n_kv_heads");
    refuses({0, 1, 32, KvType::f16, false}, "plane rows");
    refuses({80, 1, 32, KvType::f16, true}, "ring rows");
}
