// Every row kernel against plain double arithmetic, and every level against the portable one, bit for bit.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string>

#include "cpu_test_support.h"
#include "device/cpu/kv_planes.h"
#include "device/cpu/ops.h"

using namespace muser;
using namespace muser::cpu;
using namespace muser::test;

namespace {

const float kInf = std::numeric_limits<float>::infinity();
const float kNaN = std::numeric_limits<float>::quiet_NaN();

// Every float whose bits are a multiple of an odd step, and the landmarks.
Floats floats_over_the_whole_range() {
    Floats values = {0.0f, -0.0f, kInf, -kInf, kNaN, 1e-45f, -1e-45f, 88.72283f, 88.72284f, -87.33655f, -103.9f, -104.0f,
                     0.625f, -0.625f, 0.6249999f, std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 10007)
        values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    Random random(1);
    for (int i = 0; i < 200000; ++i)
        values.push_back(random.normal(i % 2 ? 1.0f : 30.0f));
    return values;
}

// Distance in units of the last place of the exact result, as a float (subnormals included).
double ulps(float got, double exact) {
    if (std::isnan(exact))
        return std::isnan(got) ? 0 : 1e9;
    if (std::abs(exact) > double(std::numeric_limits<float>::max()) * (1 + 0x1p-25))
        return std::isinf(got) && (got > 0) == (exact > 0) ? 0 : 1e9;
    if (std::isinf(got) || std::isnan(got))
        return 1e9;
    const int exponent = exact == 0 ? -126 : std::max(std::ilogb(exact), -126);
    return std::abs(double(got) - exact) / std::ldexp(1.0, exponent - 23);
}

double worst_ulps(void (*kernel)(const float *, float *, size_t), double (*exact)(double)) {
    const Floats x = floats_over_the_whole_range();
    Floats out(x.size());
    kernel(x.data(), out.data(), x.size());
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        const double error = ulps(out[i], exact(double(x[i])));
        if (error > worst) {
            worst = error;
            if (error > 4)
                MESSAGE("x = " << x[i] << " got " << out[i] << " exact " << exact(double(x[i])));
        }
    }
    return worst;
}

// All levels write the same bits as the portable one, for every length up to a few vectors.
void check_levels(const std::function<void(const OpKernels &, Floats &, size_t)> &run, Floats start) {
    for (Level level : available_levels()) {
        CAPTURE(level_name(level));
        for (size_t n : {1, 2, 8, 15, 16, 17, 31, 32, 33, 47, 64, 100}) {
            Floats expected = start, got = start;
            run(op_kernels(Level::portable), expected, n);
            run(op_kernels(level), got, n);
            CAPTURE(n);
            CHECK(same_bits(expected, got));
        }
    }
}

} // namespace

TEST_CASE("exp, sigmoid and tanh are accurate over every float") {
    for (Level level : available_levels()) {
        CAPTURE(level_name(level));
        const OpKernels &ops = op_kernels(level);
        CHECK(worst_ulps(ops.exp, [](double x) { return std::exp(x); }) < 1.0);
        CHECK(worst_ulps(ops.sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }) < 3.0);
        CHECK(worst_ulps(ops.tanh, [](double x) { return std::tanh(x); }) < 3.0);
    }
}

TEST_CASE("exp saturates exactly: e^-inf = 0, e^0 = 1, e^inf = inf, NaN stays NaN") {
    for (Level level : available_levels()) {
        const Floats x = {-kInf, -104.0f, 0.0f, -0.0f, kInf, 89.0f, kNaN};
        Floats out(x.size());
        op_kernels(level).exp(x.data(), out.data(), x.size());
        CHECK(same_bits(std::span(out).first(6), Floats{0.0f, 0.0f, 1.0f, 1.0f, kInf, kInf}));
        CHECK(std::isnan(out[6]));
    }
}

TEST_CASE("exp, sigmoid and tanh give the same bits at every level for every float") {
    const Floats x = floats_over_the_whole_range();
    Floats expected(x.size()), got(x.size());
    for (auto member : {&OpKernels::exp, &OpKernels::sigmoid, &OpKernels::tanh}) {
        (op_kernels(Level::portable).*member)(x.data(), expected.data(), x.size());
        for (Level level : available_levels()) {
            (op_kernels(level).*member)(x.data(), got.data(), x.size());
            size_t different = 0;
            for (size_t i = 0; i < x.size(); ++i)
                different += std::isnan(expected[i]) ? !std::isnan(got[i])
                                                     : std::bit_cast<uint32_t>(expected[i]) != std::bit_cast<uint32_t>(got[i]);
            CAPTURE(level_name(level));
            CHECK(different == 0);
        }
    }
}

TEST_CASE("RMS norm equals its definition in double") {
    Random random(2);
    for (Level level : available_levels())
        for (size_t n : {1, 7, 16, 64, 576, 6656})
            for (bool weighted : {false, true}) {
                const Floats x = random.normals(n, 3.0f), w = random.normals(n);
                Floats out(n);
                op_kernels(level).rms_norm(x.data(), weighted ? w.data() : nullptr, 1e-5f, out.data(), n);
                double squares = 0;
                for (float v : x)
                    squares += double(v) * v;
                double worst = 0;
                for (size_t i = 0; i < n; ++i) {
                    const double exact = x[i] / std::sqrt(squares / double(n) + 1e-5) * (weighted ? w[i] : 1.0f);
                    worst = std::max(worst, std::abs(out[i] - exact) / std::max(1e-3, std::abs(exact)));
                }
                CAPTURE(n);
                CHECK(worst < 1e-6);
            }
}

TEST_CASE("activations, gate and softcap equal their definitions in double") {
    Random random(3);
    const size_t n = 1000;
    const Floats x = random.normals(n, 4.0f), y = random.normals(n);
    // Relative error, of values below `floor` relative to it.
    const auto compare = [&](auto run, auto exact, double floor = 1e-30) {
        for (Level level : available_levels()) {
            Floats got = x;
            run(op_kernels(level), got);
            double worst = 0;
            for (size_t i = 0; i < n; ++i) {
                const double e = exact(double(x[i]), double(y[i]));
                worst = std::max(worst, std::abs(got[i] - e) / std::max(floor, std::abs(e)));
            }
            CHECK(worst < 2e-6);
        }
    };
    compare([&](const OpKernels &k, Floats &v) { k.silu_glu(v.data(), y.data(), n); },
            [](double a, double b) { return a / (1 + std::exp(-a)) * b; });
    // Far to the left the exponent is large, and its rounding is a relative error of a vanishing result.
    compare([&](const OpKernels &k, Floats &v) { k.gelu_tanh_glu(v.data(), y.data(), n); },
            [](double a, double b) {
                return 0.5 * a * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (a + 0.044715 * a * a * a))) * b;
            },
            1e-3);
    compare([&](const OpKernels &k, Floats &v) { k.gate(v.data(), y.data(), n); },
            [](double a, double b) { return a / (1 + std::exp(-b)); });
    compare([&](const OpKernels &k, Floats &v) { k.softcap(v.data(), 20.0f, n); },
            [](double a, double) { return 20 * std::tanh(a / 20); });
}

TEST_CASE("rope turns each pair by its angle, in both pairings, and leaves the rest alone") {
    Random random(4);
    const size_t pairs = 12, n = 32; // 24 of 32 dimensions turn
    for (Level level : available_levels())
        for (bool halves : {false, true}) {
            const Floats x = random.normals(n);
            Floats cosine(pairs), sine(pairs), got = x;
            for (size_t k = 0; k < pairs; ++k) {
                const double angle = random.normal(10.0f);
                cosine[k] = float(std::cos(angle));
                sine[k] = float(std::sin(angle));
            }
            op_kernels(level).rope(got.data(), cosine.data(), sine.data(), pairs, halves);
            for (size_t k = 0; k < pairs; ++k) {
                const size_t a = halves ? k : 2 * k, b = halves ? k + pairs : 2 * k + 1;
                CHECK(got[a] == doctest::Approx(double(x[a]) * cosine[k] - double(x[b]) * sine[k]).epsilon(1e-6));
                CHECK(got[b] == doctest::Approx(double(x[a]) * sine[k] + double(x[b]) * cosine[k]).epsilon(1e-6));
            }
            CHECK(same_bits(std::span(got).subspan(2 * pairs), std::span(x).subspan(2 * pairs)));
        }
}

TEST_CASE("every row kernel gives the same bits at every level and length") {
    Random random(5);
    const Floats x = random.normals(256, 4.0f), y = random.normals(256), w = random.normals(256);
    check_levels([&](const OpKernels &k, Floats &v, size_t n) { k.rms_norm(v.data(), w.data(), 1e-6f, v.data(), n); }, x);
    check_levels([&](const OpKernels &k, Floats &v, size_t n) { k.rms_norm(v.data(), nullptr, 1e-6f, v.data(), n); }, x);
    check_levels([&](const OpKernels &k, Floats &v, size_t n) { k.add_rms_norm(v.data(), y.data(), w.data(), 1e-8f, n); }, x);
    check_levels([&](const OpKernels &k, Floats &v, size_t n) { k.add(v.data(), y.data(), n); }, x);
    check_levels([&](const OpKernels &k, Floats &v, size_t n) { k.scale(v.data(), 0.19611613f, n); }, x);
    check_levels([&](const OpKernels &k, Floats &v, size_t n) { k.gate(v.data(), y.data(), n); }, x);
    check_levels([&](const OpKernels &k, Floats &v, size_t n) { k.silu_glu(v.data(), y.data(), n); }, x);
    check_levels([&](const OpKernels &k, Floats &v, size_t n) { k.gelu_tanh_glu(v.data(), y.data(), n); }, x);
    check_levels([&](const OpKernels &k, Floats &v, size_t n) { k.softcap(v.data(), 30.0f, n); }, x);
    for (bool halves : {false, true})
        check_levels([&](const OpKernels &k, Floats &v, size_t n) { k.rope(v.data(), y.data(), w.data(), n, halves); }, x);
}

TEST_CASE("half keys and values are rounded to nearest even and land in their lane") {
    // Values around every rounding boundary: each half, its neighbours' midpoints, and a hair beside them.
    Floats interesting;
    for (int bits = 0; bits < 0x7c00; bits += 37) {
        const auto value = [](int h) { return h < 0x400 ? std::ldexp(h, -24) : std::ldexp(0x400 + (h & 0x3ff), (h >> 10) - 25); };
        const double middle = (value(bits) + value(bits + 1)) / 2;
        for (double v : {value(bits), middle, middle * (1 + 1e-7), middle * (1 - 1e-7)})
            interesting.insert(interesting.end(), {float(v), float(-v)});
    }
    interesting.insert(interesting.end(), {65504.0f, 65519.0f, 65520.0f, 1e6f, -1e30f, kInf, -kInf, 0.0f, -0.0f, 1e-10f});
    const uint32_t head_dim = 24, heads = 2, rows = 128;
    interesting.resize(interesting.size() / (head_dim * heads) * head_dim * heads);
    for (Level level : available_levels()) {
        const PlaneSpec spec{rows, heads, head_dim, KvType::f16, true};
        const KvPlanes planes({&spec, 1});
        std::memset(planes.memory().data(), 0xff, planes.memory().size());
        const PlaneView &plane = planes.plane(0);
        const auto as_double = [](uint16_t h) {
            const double magnitude = (h & 0x7fff) == 0x7c00   ? double(kInf)
                                     : (h & 0x7fff) < 0x400 ? std::ldexp(h & 0x3ff, -24)
                                                            : std::ldexp(0x400 + (h & 0x3ff), ((h >> 10) & 31) - 25);
            return h & 0x8000 ? -magnitude : magnitude;
        };
        size_t wrong = 0;
        for (size_t at = 0; at + heads * head_dim <= interesting.size(); at += heads * head_dim) {
            const auto position = static_cast<uint32_t>(at / 48 * 7); // wraps around the ring
            op_kernels(level).store_kv(plane, position, interesting.data() + at, interesting.data() + at);
            for (uint32_t h = 0; h < heads; ++h)
                for (uint32_t d = 0; d < 32; ++d) {
                    const double value = as_double(plane.value_row<uint16_t>(position, h)[d]);
                    const double exact = d < head_dim ? round_to_half(interesting[at + h * head_dim + d]) : 0.0;
                    wrong += value != exact;
                    if (d < head_dim)
                        wrong += as_double(plane.key_tile<uint16_t>(position, h)[d * 16 + position % 16]) != exact;
                }
        }
        CAPTURE(level_name(level));
        CHECK(wrong == 0);
    }
}

TEST_CASE("q8_0: every level stores the same bytes, rows leave a plane and come back, and the rotation undoes itself") {
    const uint32_t heads = 2, positions = 40;
    for (uint32_t head_dim : {32u, 64u, 96u, 256u}) {
        const size_t n = heads * head_dim;
        Random random(head_dim);
        Floats values;
        for (uint32_t p = 0; p < positions; ++p) { // from scales that vanish in float16 to those that overflow in it
            const Floats row = random.normals(n, std::ldexp(1.0f, static_cast<int>(p) * 2 - 40));
            values.insert(values.end(), row.begin(), row.end());
        }
        values[3 * n] = std::nanf("");
        values[5 * n] = kInf;

        const PlaneSpec spec{64, heads, head_dim, KvType::q8_0, true};
        std::vector<std::byte> expected;
        for (Level level : available_levels()) {
            KvPlanes planes({&spec, 1});
            std::memset(planes.memory().data(), 0, planes.memory().size());
            for (uint32_t p = 0; p < positions; ++p)
                op_kernels(level).store_kv(planes.plane(0), p, &values[p * n], &values[(positions - 1 - p) * n]);
            const std::vector<std::byte> bytes(planes.memory().begin(), planes.memory().end());
            CAPTURE(level_name(level));
            if (expected.empty())
                expected = bytes;
            CHECK(bytes == expected);

            std::vector<std::byte> rows(positions * 2 * kv_bytes(KvType::q8_0, n));
            planes.read_rows(0, {0, positions}, rows.data());
            KvPlanes other({&spec, 1});
            std::memset(other.memory().data(), 0, other.memory().size());
            other.write_rows(0, {0, positions}, rows.data());
            CHECK(std::memcmp(other.memory().data(), expected.data(), expected.size()) == 0);
        }
        Floats x = random.normals(head_dim), y = x;
        op_kernels(available_levels().front()).rotate(y.data(), head_dim);
        CHECK(!same_bits(x, y));
        op_kernels(available_levels().back()).rotate(y.data(), head_dim);
        for (uint32_t i = 0; i < head_dim; ++i)
            CHECK(std::abs(x[i] - y[i]) < 2e-6f);
    }
}
