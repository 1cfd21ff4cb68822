// Q8_0 heads in two planes: the bits of the usual Q8_0 on every level, and bounds from the first plane that no output exceeds.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "matmul_cases.h"

using namespace muser;
using namespace muser::cpu;
using namespace muser::cpu::testing;

namespace {

constexpr uint64_t kWidths[] = {32, 96, 608, 640, 4096};
constexpr size_t kBlock = 34; // bytes of Q8_0: a scale and 32 values

// With scales as quantizers write them.
Matrix head_matrix(uint64_t rows, uint64_t cols, std::mt19937 &rng) {
    Matrix m = random_matrix(BlockType::Q8_0, rows, cols, rng);
    for (size_t at = 0; at < m.data.size(); at += kBlock)
        m.data[at + 1] &= std::byte{0x7f};
    return m;
}

// How many bounds do not exceed the largest output.
int check_bounds(Product &product, const std::vector<float> &rows, int n) {
    const std::vector<float> out = product(rows, n), bounds = product.bounds(rows, n);
    const PackedMatrix &matrix = product.packed();
    int below = 0;
    for (int r = 0; r < n; ++r) {
        const float *outputs = out.data() + static_cast<size_t>(r) * matrix.rows;
        const float largest = *std::max_element(outputs, outputs + matrix.rows);
        for (uint64_t tile = 0; tile < matrix.tiles(); ++tile) {
            const float bound = bounds[static_cast<size_t>(r) * matrix.tiles() + tile];
            const uint64_t first = tile * matrix.lanes, last = std::min(first + matrix.lanes, matrix.rows);
            for (uint64_t o = first; o < last; ++o)
                CHECK(outputs[o] <= bound);
            below += bound < largest;
        }
    }
    return below;
}

} // namespace

TEST_CASE("two planes give the products of one, on all levels and for any number of rows") {
    std::mt19937 rng(21);
    for (const uint64_t cols : kWidths) {
        const Matrix m = random_matrix(BlockType::Q8_0, 813, cols, rng);
        for (const int n : {1, 2, 3, 4, 7, 16, 33}) {
            const std::vector<float> rows = random_rows(n, cols, rng);
            const std::vector<float> bias = random_rows(1, m.rows, rng);
            const std::vector<float> expected = Product(m, available_levels().back())(rows, n, bias.data());
            for (const Level level : available_levels()) {
                if (level == Level::portable && (n > 4 || cols > 1000))
                    continue; // slow
                CAPTURE(level_name(level));
                CAPTURE(cols);
                CAPTURE(n);
                CHECK(same_bits(Product::split(m, level)(rows, n, bias.data()), expected));
            }
        }
    }
}

TEST_CASE("a row of two planes reads back as the reference dequantizer's floats") {
    std::mt19937 rng(22);
    for (const uint64_t cols : {32, 608})
        for (const Level level : available_levels()) {
            const Matrix m = random_matrix(BlockType::Q8_0, 43, cols, rng);
            const Product product = Product::split(m, level);
            std::vector<float> row(cols);
            for (uint64_t r = 0; r < m.rows; ++r) {
                unpack_row(product.packed(), r, row.data());
                CHECK(same_bits(row, m.row(r)));
            }
        }
}

TEST_CASE("two planes take the bytes of one") {
    for (const int lanes : {16, 32})
        for (const uint64_t cols : kWidths)
            CHECK(packed_bytes(kSplitQ8, 333, cols, lanes) == packed_bytes(BlockType::Q8_0, 333, cols, lanes));
}

TEST_CASE("no output exceeds its tile's bound") {
    std::mt19937 rng(23);
    for (const Level level : available_levels())
        for (const uint64_t cols : kWidths)
            for (const float size : {1.0f, 1e-30f, 1e30f}) {
                if (level == Level::portable && cols > 1000)
                    continue;
                CAPTURE(level_name(level));
                CAPTURE(cols);
                CAPTURE(size);
                Product product = Product::split(head_matrix(813, cols, rng), level);
                CHECK(product.bounded());
                for (const int n : {1, 2, 3, 4})
                    check_bounds(product, random_rows(n, cols, rng, size), n);
            }
}

// All low bits set and no negative activation: but for what is added for rounding, the bound is the output.
TEST_CASE("rounding does not lift an output above its bound") {
    std::mt19937 rng(24);
    for (const Level level : available_levels())
        for (const uint64_t cols : {32, 640, 14336}) {
            Matrix m = head_matrix(64, cols, rng);
            for (size_t at = 0; at < m.data.size(); at += kBlock)
                for (size_t i = 2; i < kBlock; ++i)
                    m.data[at + i] |= std::byte{0x0f};
            std::vector<float> rows = random_rows(2, cols, rng);
            for (float &x : rows)
                x = std::fabs(x);
            CAPTURE(level_name(level));
            CAPTURE(cols);
            Product product = Product::split(m, level);
            check_bounds(product, rows, 2);
        }
}

TEST_CASE("bounds rule out nearly all tiles where one output stands out") {
    std::mt19937 rng(25);
    const uint64_t cols = 640;
    const std::vector<float> row = random_rows(1, cols, rng);
    Matrix m = head_matrix(8192, cols, rng);
    const float largest = std::fabs(*std::max_element(row.begin(), row.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
    for (size_t at = 0, k = 0; at < m.data.size(); at += kBlock, k = (k + 32) % cols) {
        put_half(m.data.data() + at, 0x2000); // 1/128
        for (size_t i = 0; i < 32; ++i)
            if (at / kBlock / (cols / 32) == 5000)
                m.data[at + 2 + i] = static_cast<std::byte>(static_cast<int8_t>(row[k + i] / largest * 127));
            else
                m.data[at + 2 + i] = static_cast<std::byte>(static_cast<int8_t>(static_cast<int>(rng() % 41) - 20));
    }
    for (const Level level : available_levels()) {
        CAPTURE(level_name(level));
        Product product = Product::split(m, level);
        const auto tiles = static_cast<int>(product.packed().tiles());
        CHECK(check_bounds(product, row, 1) > tiles * 9 / 10);
    }
}

TEST_CASE("a scale that is negative or not finite, or overflow, leaves no bound") {
    std::mt19937 rng(26);
    for (const Level level : available_levels()) {
        CAPTURE(level_name(level));
        for (const int bits : {0x8001, 0xbc00, 0x7c00, 0xfc00, 0x7e00}) {
            Matrix m = head_matrix(70, 96, rng);
            CHECK(Product::split(m, level).bounded());
            put_half(m.data.data() + 100 * kBlock, static_cast<uint16_t>(bits));
            CHECK_FALSE(Product::split(m, level).bounded());
        }
        Matrix m = head_matrix(70, 96, rng);
        for (size_t at = 0; at < m.data.size(); at += kBlock)
            put_half(m.data.data() + at, 0x7bff);
        Product product = Product::split(m, level);
        std::vector<float> rows = random_rows(1, 96, rng, 1e37f);
        for (const float bound : product.bounds(rows, 1))
            CHECK(bound == std::numeric_limits<float>::infinity());
        rows[40] = std::nanf("");
        for (const float bound : product.bounds(rows, 1))
            CHECK(bound == std::numeric_limits<float>::infinity());
    }
}
