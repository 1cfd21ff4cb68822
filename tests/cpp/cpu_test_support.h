// Shared by the CPU device's tests: random values, bit comparison, and weights made from vectors.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "device/device.h"

namespace muser::test {

using Floats = std::vector<float>;

class Random {
  public:
    explicit Random(uint32_t seed) : engine_(seed) {}
    float normal(float scale = 1.0f) { return scale * normal_(engine_); }
    int below(int n) { return static_cast<int>(engine_() % static_cast<uint32_t>(n)); }
    Floats normals(size_t n, float scale = 1.0f) {
        Floats values(n);
        for (float &v : values)
            v = normal(scale);
        return values;
    }

  private:
    std::mt19937 engine_;
    std::normal_distribution<float> normal_;
};

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

inline TensorView f32_view(const Floats &values, uint64_t rows, uint64_t cols) {
    return {"test", gguf::BlockType::F32, rows, cols, std::as_bytes(std::span(values))};
}

// Keeps the values alive, as a mapped file would.
struct TestWeight {
    Floats values;
    std::unique_ptr<Weight> weight;
    TestWeight(Device &device, Floats v, uint64_t rows, uint64_t cols, WeightUse use)
        : values(std::move(v)), weight(device.load_weight(f32_view(values, rows, cols), use)) {}
    const Weight *get() const { return weight.get(); }
};

// To half precision and back, by the definition: nearest, ties to even.
inline double round_to_half(double x) {
    if (x == 0 || std::isnan(x) || std::isinf(x))
        return x;
    const int exponent = std::max(std::ilogb(x), -14);
    const double unit = std::ldexp(1.0, exponent - 10);
    const double rounded = std::nearbyint(x / unit) * unit;
    return std::abs(rounded) > 65504 ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}

} // namespace muser::test
