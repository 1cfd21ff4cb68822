// Random matrices in every file format and random activations, for the matrix product tests.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "device/cpu/matmul.h"
#include "device/cpu/matmul/bounds.h"
#include "gguf/dequant.h"

namespace muser::cpu::testing {

using gguf::BlockType;

inline const std::vector<BlockType> kTypes = {
    BlockType::F32,  BlockType::F16,  BlockType::BF16, BlockType::Q4_0,   BlockType::Q4_1,
    BlockType::Q5_0, BlockType::Q5_1, BlockType::Q8_0, BlockType::Q2_K,   BlockType::Q3_K,
    BlockType::Q4_K, BlockType::Q5_K, BlockType::Q6_K, BlockType::IQ4_NL, BlockType::IQ4_XS};

// Byte offsets of the float16 scales in a file block.
inline std::vector<int> scale_offsets(BlockType type) {
    switch (type) {
    case BlockType::Q4_1:
    case BlockType::Q5_1:
    case BlockType::Q4_K:
    case BlockType::Q5_K: return {0, 2};
    case BlockType::Q2_K: return {80, 82};
    case BlockType::Q3_K: return {108};
    case BlockType::Q6_K: return {208};
    default: return {0};
    }
}

// Finite, of either sign, about 2^-12..2^2; sometimes zero or subnormal.
inline uint16_t random_half(std::mt19937 &rng) {
    const uint32_t sign = rng() & 0x8000u, fraction = rng() & 0x3ffu;
    const uint32_t kind = rng() % 32;
    const uint32_t exponent = kind < 2 ? 0 : 3 + rng() % 14;
    return static_cast<uint16_t>(kind == 0 ? sign : sign | exponent << 10 | fraction);
}

struct Matrix {
    BlockType type;
    uint64_t rows, cols;
    std::vector<std::byte> data;
    TensorView view() const { return {"weight", type, rows, cols, data}; }
    size_t row_bytes() const { return data.size() / rows; }
    std::vector<float> row(uint64_t r) const {
        std::vector<float> values(cols);
        gguf::dequantize(type, data.data() + r * row_bytes(), values.data(), cols);
        return values;
    }
};

inline void put_half(std::byte *dst, uint16_t bits) { std::memcpy(dst, &bits, 2); }

inline Matrix random_matrix(BlockType type, uint64_t rows, uint64_t cols, std::mt19937 &rng) {
    const gguf::BlockTraits traits = gguf::traits(type);
    Matrix m{type, rows, cols, std::vector<std::byte>(rows * cols / traits.elements * traits.bytes)};
    std::normal_distribution<float> normal;
    for (size_t at = 0; at < m.data.size(); at += traits.bytes) {
        std::byte *block = m.data.data() + at;
        const float value = normal(rng);
        const uint32_t bits = std::bit_cast<uint32_t>(value);
        if (type == BlockType::F32) {
            std::memcpy(block, &bits, 4);
        } else if (type == BlockType::F16) {
            put_half(block, random_half(rng));
        } else if (type == BlockType::BF16) {
            put_half(block, static_cast<uint16_t>(bits >> 16));
        } else {
            for (uint32_t i = 0; i < traits.bytes; ++i)
                block[i] = static_cast<std::byte>(rng());
            if (rng() % 8 == 0) // extremes: all bits set or clear
                std::memset(block, rng() % 2 ? 0xff : 0x00, traits.bytes);
            for (const int offset : scale_offsets(type))
                put_half(block + offset, random_half(rng));
        }
    }
    return m;
}

inline std::vector<float> random_rows(int n, uint64_t cols, std::mt19937 &rng, float size = 1.0f) {
    std::normal_distribution<float> normal(0.0f, size);
    std::vector<float> rows(static_cast<size_t>(n) * cols);
    for (float &x : rows)
        x = rng() % 64 == 0 ? normal(rng) * 20.0f : normal(rng);
    return rows;
}

// 64-byte aligned bytes.
class Aligned {
  public:
    explicit Aligned(size_t size) : storage_(size + 64) {}
    std::byte *data() {
        const auto address = reinterpret_cast<uintptr_t>(storage_.data());
        return storage_.data() + (64 - address % 64) % 64;
    }

  private:
    std::vector<std::byte> storage_;
};

// A matrix packed for one level, and products with it.
class Product {
  public:
    Product(const Matrix &m, Level level) : Product(m, level, m.type) {
        pack_tiles(m.view(), kernels_.lanes, packed_.data(), 0, matrix_.tiles());
    }
    // A Q8_0 matrix in two planes.
    static Product split(const Matrix &m, Level level) {
        Product product(m, level, kSplitQ8);
        std::byte *const high = product.packed_.data(), *const low = high + (product.matrix_.low - product.matrix_.data);
        product.bounded_ = pack_split_tiles(m.view(), product.kernels_.lanes, high, low, 0, product.matrix_.tiles());
        return product;
    }
    const PackedMatrix &packed() const { return matrix_; }
    const MatmulKernels &kernels() const { return kernels_; }
    bool bounded() const { return bounded_; }

    // [n, tiles] of rows [n, cols]; of a split matrix.
    std::vector<float> bounds(const std::vector<float> &rows, int n) {
        const size_t stride = quantized_row_bytes(matrix_.cols);
        Aligned quants(stride * static_cast<size_t>(n));
        for (int r = 0; r < n; ++r) {
            kernels_.quantize_row(rows.data() + r * matrix_.cols, matrix_.cols, quants.data() + r * stride);
            bound_row(quants.data() + r * stride, matrix_.cols);
        }
        std::vector<float> out(static_cast<size_t>(n) * matrix_.tiles(), -12345.0f);
        kernels_.bounds(matrix_, 0, matrix_.tiles(), {rows.data(), matrix_.cols, quants.data()}, n, out.data(), matrix_.tiles());
        return out;
    }

    // [n, rows] of rows [n, cols]; one call a tile range when `split` is set.
    std::vector<float> operator()(const std::vector<float> &rows, int n, const float *bias = nullptr,
                                  bool split = false) {
        const size_t stride = quantized_row_bytes(matrix_.cols);
        Aligned quants(stride * static_cast<size_t>(n));
        if (needs_quantized_rows(matrix_.type))
            for (int r = 0; r < n; ++r)
                kernels_.quantize_row(rows.data() + r * matrix_.cols, matrix_.cols,
                                      quants.data() + r * stride);
        const ActivationRows in{rows.data(), matrix_.cols, quants.data()};
        std::vector<float> out(static_cast<size_t>(n) * matrix_.rows, -12345.0f);
        const uint64_t step = split ? 1 : matrix_.tiles();
        for (uint64_t first = 0; first < matrix_.tiles(); first += step)
            kernels_.matmul(matrix_, first, std::min(first + step, matrix_.tiles()), in, n, out.data(),
                            matrix_.rows, bias);
        return out;
    }

  private:
    Product(const Matrix &m, Level level, BlockType type)
        : kernels_(matmul_kernels(level)), packed_(packed_bytes(type, m.rows, m.cols, kernels_.lanes)),
          matrix_(place_matrix(type, m.rows, m.cols, kernels_.lanes, packed_.data())) {}

    const MatmulKernels &kernels_;
    Aligned packed_;
    PackedMatrix matrix_;
    bool bounded_ = false;
};

// Equal bits, except that any NaN equals any other.
inline bool same_bits(const float *a, const float *b, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        if (std::isnan(a[i]) && std::isnan(b[i]))
            continue;
        if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]))
            return false;
    }
    return true;
}

inline bool same_bits(const std::vector<float> &a, const std::vector<float> &b) {
    return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

} // namespace muser::cpu::testing
