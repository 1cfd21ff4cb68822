// Matrix products of every weight type on every level: equal bits on all levels, in any company of rows and
// any split of tiles, and right to float rounding against a product in double precision.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <tuple>

#include "device/cpu/matmul/activations.h"
#include "matmul_cases.h"

using namespace muser;
using namespace muser::cpu;
using namespace muser::cpu::testing;

namespace {

std::vector<uint64_t> widths(BlockType type) {
    if (type == BlockType::F32 || type == BlockType::F16 || type == BlockType::BF16)
        return {1, 7, 64, 301};
    if (gguf::traits(type).elements == 32)
        return {32, 64, 96, 608, 1152};
    return {256, 512, 768, 2048};
}

// The activation row that a product with this weight type really uses.
std::vector<double> effective_row(const MatmulKernels &kernels, BlockType type, const float *row,
                                  uint64_t cols) {
    std::vector<double> values(row, row + cols);
    if (!needs_quantized_rows(type))
        return values;
    Aligned record(quantized_row_bytes(cols));
    kernels.quantize_row(row, cols, record.data());
    const auto *quants = reinterpret_cast<const int8_t *>(record.data());
    const auto *scales = reinterpret_cast<const float *>(record.data() + RowLayout(cols).scale);
    for (uint64_t k = 0; k < cols; ++k)
        values[k] = static_cast<double>(scales[k / 32]) * quants[k];
    return values;
}

} // namespace

TEST_CASE("a packed row reads back as the reference dequantizer's floats") {
    std::mt19937 rng(1);
    for (const BlockType type : kTypes)
        for (const uint64_t cols : widths(type))
            for (const int lanes : {16, 32}) {
                CAPTURE(gguf::traits(type).name);
                const Matrix m = random_matrix(type, 21, cols, rng);
                Aligned packed(packed_bytes(type, m.rows, cols, lanes));
                const uint64_t tile_bytes = packed_bytes(type, 1, cols, lanes);
                CHECK(tile_bytes % 64 == 0);
                const PackedMatrix matrix{type, m.rows, cols, lanes, tile_bytes, packed.data()};
                for (uint64_t tile = matrix.tiles(); tile-- > 0;) // any order, one at a time
                    pack_tiles(m.view(), lanes, packed.data(), tile, tile + 1);
                std::vector<float> row(cols);
                for (uint64_t r = 0; r < m.rows; ++r) {
                    unpack_row(matrix, r, row.data());
                    CHECK(same_bits(row, m.row(r)));
                }
            }
}

TEST_CASE("packing costs at most 6 % over the file's size") {
    for (const BlockType type : kTypes)
        for (const int lanes : {16, 32}) {
            const gguf::BlockTraits traits = gguf::traits(type);
            const double file = 2048.0 * 2048 / traits.elements * traits.bytes;
            CHECK(packed_bytes(type, 2048, 2048, lanes) <= 1.06 * file);
        }
}

TEST_CASE("all levels give the portable level's bits, for any number of rows") {
    std::mt19937 rng(2);
    for (const BlockType type : kTypes)
        for (const uint64_t cols : widths(type)) {
            const Matrix m = random_matrix(type, 43, cols, rng);
            std::vector<float> bias = random_rows(1, m.rows, rng);
            Product oracle(m, Level::portable);
            for (const int n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 64, 255}) {
                if (n > 64 && cols != widths(type).front())
                    continue; // more than one batch of rows: no matter how wide
                const std::vector<float> rows = random_rows(n, cols, rng);
                const float *b = n % 2 ? bias.data() : nullptr;
                const std::vector<float> expected = oracle(rows, n, b);
                for (const Level level : available_levels()) {
                    CAPTURE(gguf::traits(type).name);
                    CAPTURE(level_name(level));
                    CAPTURE(cols);
                    CAPTURE(n);
                    Product product(m, level);
                    CHECK(same_bits(product(rows, n, b), expected));
                    CHECK(same_bits(product(rows, n, b, true), expected));
                }
            }
        }
}

// Tall: few rows read a matrix along several lines at once. Wide: fewer rows than usual pass over a panel together.
TEST_CASE("all levels give the portable level's bits, for tall and for wide matrices") {
    std::mt19937 rng(8);
    for (const BlockType type : kTypes)
        for (const auto &[height, cols, counts] :
             {std::tuple{uint64_t{813}, uint64_t{768}, std::vector{1, 2, 3, 4}}, {uint64_t{19}, uint64_t{14336}, {61}}}) {
            const Matrix m = random_matrix(type, height, cols, rng);
            Product oracle(m, Level::portable);
            const std::vector<float> rows = random_rows(counts.back(), cols, rng);
            const std::vector<float> expected = oracle(rows, counts.back());
            for (const Level level : available_levels())
                for (const int n : counts) {
                    CAPTURE(gguf::traits(type).name);
                    CAPTURE(level_name(level));
                    CAPTURE(n);
                    const std::vector<float> out = Product(m, level)(rows, n);
                    CHECK(same_bits(out.data(), expected.data(), n * height));
                }
        }
}

TEST_CASE("a row's result does not depend on its company") {
    std::mt19937 rng(3);
    for (const BlockType type : kTypes)
        for (const Level level : available_levels()) {
            const uint64_t cols = widths(type).back();
            const Matrix m = random_matrix(type, 24, cols, rng);
            Product product(m, level);
            const int n = level == Level::portable ? 12 : 150;
            const std::vector<float> rows = random_rows(n, cols, rng);
            const std::vector<float> together = product(rows, n);
            for (int r = 0; r < n; ++r) {
                CAPTURE(gguf::traits(type).name);
                CAPTURE(level_name(level));
                CAPTURE(r);
                const std::vector<float> row(rows.begin() + r * cols, rows.begin() + (r + 1) * cols);
                const std::vector<float> alone = product(row, 1);
                CHECK(same_bits(alone.data(), together.data() + r * m.rows, m.rows));
            }
        }
}

TEST_CASE("products are right to float rounding") {
    std::mt19937 rng(4);
    for (const BlockType type : kTypes)
        for (const uint64_t cols : widths(type)) {
            const Matrix m = random_matrix(type, 19, cols, rng);
            const std::vector<float> rows = random_rows(5, cols, rng);
            for (const Level level : available_levels()) {
                Product product(m, level);
                const std::vector<float> out = product(rows, 5);
                for (int r = 0; r < 5; ++r) {
                    const auto a = effective_row(product.kernels(), type, rows.data() + r * cols, cols);
                    for (uint64_t o = 0; o < m.rows; ++o) {
                        const std::vector<float> w = m.row(o);
                        double exact = 0, size = 0;
                        for (uint64_t b = 0; b < cols; b += 32) {
                            double largest = 0, sum = 0;
                            for (uint64_t k = b; k < std::min(b + 32, cols); ++k) {
                                exact += w[k] * a[k];
                                largest = std::max(largest, std::fabs(static_cast<double>(w[k])));
                                sum += std::fabs(a[k]);
                            }
                            size += largest * sum;
                        }
                        // Each of the chain's roundings is at most half an ulp of a partial sum.
                        const double chain = needs_quantized_rows(type) ? 4.0 + cols / 32 : 1.0 + cols;
                        CAPTURE(gguf::traits(type).name);
                        CAPTURE(level_name(level));
                        CHECK(std::fabs(out[r * m.rows + o] - exact) <= chain * 0x1p-24 * size);
                    }
                }
            }
        }
}

TEST_CASE("activation rows are quantized alike on every level, to half a step") {
    std::mt19937 rng(5);
    const uint64_t cols = 640;
    const size_t bytes = quantized_row_bytes(cols);
    CHECK(bytes % 64 == 0);
    for (const float size : {1.0f, 1e-30f, 1e-36f, 1e30f, 1e36f}) {
        std::vector<float> row = random_rows(1, cols, rng, size);
        std::fill(row.begin() + 64, row.begin() + 96, 0.0f);
        std::fill(row.begin() + 96, row.begin() + 128, 1e-42f);
        row[130] = 3.4e38f;
        for (int k = 160; k < 192; ++k) // ties: rounded to even
            row[k] = size * 0.5f * static_cast<float>(k - 175);
        row[191] = size * 127.0f;
        Aligned expected(bytes);
        std::memset(expected.data(), 0, bytes);
        matmul_kernels(Level::portable).quantize_row(row.data(), cols, expected.data());
        const auto *quants = reinterpret_cast<const int8_t *>(expected.data());
        const auto *scales = reinterpret_cast<const float *>(expected.data() + RowLayout(cols).scale);
        for (uint64_t k = 0; k < cols; ++k) {
            const double scale = scales[k / 32];
            const double error = std::fabs(scale * quants[k] - static_cast<double>(row[k]));
            CHECK(error <= std::max(scale * 0.50001, static_cast<double>(kTinyBlock)));
        }
        for (const Level level : available_levels()) {
            Aligned actual(bytes);
            std::memset(actual.data(), 0, bytes);
            matmul_kernels(level).quantize_row(row.data(), cols, actual.data());
            CAPTURE(level_name(level));
            CAPTURE(size);
            CHECK(std::memcmp(actual.data(), expected.data(), bytes) == 0);
            Aligned in_parts(bytes);
            std::memset(in_parts.data(), 0, bytes);
            for (uint64_t first = 0; first < cols / 32; first += 8)
                matmul_kernels(level).quantize_blocks(row.data() + first * 32, cols, first, std::min(first + 8, cols / 32),
                                                      in_parts.data());
            CHECK(std::memcmp(in_parts.data(), expected.data(), bytes) == 0);
        }
    }
}

TEST_CASE("a value that is not finite makes its row NaN, and only its row") {
    std::mt19937 rng(6);
    for (const BlockType type : kTypes)
        for (const Level level : available_levels()) {
            const uint64_t cols = widths(type).back();
            const Matrix m = random_matrix(type, 11, cols, rng);
            Product product(m, level);
            for (const int n : {1, 4, 13}) {
                std::vector<float> rows = random_rows(n, cols, rng);
                const std::vector<float> clean = product(rows, n);
                const int bad = static_cast<int>(rng() % n);
                const float poison = rng() % 2 ? std::nanf("") : -std::numeric_limits<float>::infinity();
                rows[bad * cols + rng() % cols] = poison;
                const std::vector<float> out = product(rows, n);
                for (int r = 0; r < n; ++r)
                    for (uint64_t o = 0; o < m.rows; ++o) {
                        const float value = out[r * m.rows + o];
                        CAPTURE(gguf::traits(type).name);
                        CAPTURE(level_name(level));
                        if (r == bad)
                            CHECK(!std::isfinite(value));
                        else
                            CHECK(same_bits(&value, &clean[r * m.rows + o], 1));
                    }
            }
        }
}

TEST_CASE("zero, huge and tiny rows, and zero weights") {
    std::mt19937 rng(7);
    for (const BlockType type : kTypes)
        for (const Level level : available_levels()) {
            CAPTURE(gguf::traits(type).name);
            CAPTURE(level_name(level));
            const uint64_t cols = 768;
            Matrix m = random_matrix(type, 9, cols, rng);
            const std::vector<float> zeros(cols, 0.0f);
            for (const float value : Product(m, level)(zeros, 1))
                CHECK(value == 0.0f);
            for (const float size : {1e-42f, 1e-36f, 1e-28f, 1e28f, 1e34f, 1e37f}) {
                const std::vector<float> rows = random_rows(5, cols, rng, size);
                CHECK(same_bits(Product(m, level)(rows, 5), Product(m, Level::portable)(rows, 5)));
            }
            std::fill(m.data.begin(), m.data.end(), std::byte{0});
            for (const float value : Product(m, level)(random_rows(1, cols, rng), 1))
                CHECK(value == 0.0f);
        }
}
