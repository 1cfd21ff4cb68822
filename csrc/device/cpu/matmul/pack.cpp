// Packing the file's blocks into lane-interleaved tiles, and reading a row back. Part of the load path:
// word shuffles only, at several GB/s a core.
#include <algorithm>
#include <array>
#include <utility>

#include "device/cpu/matmul.h"
#include "device/cpu/matmul/activations.h"
#include "device/cpu/matmul/each_type.h"
#include "device/cpu/matmul/interleave.h"
#include "device/cpu/matmul/lane_block.h"
#include "device/cpu/matmul/row_unit.h"
#include "gguf/dequant.h"

namespace muser::cpu {

namespace {

// Rows [row, row + count) of the file form one tile; lanes past count are zero.
struct TileRows {
    const uint8_t *first;
    size_t row_bytes;
    int count;
};

template <BlockType type, int lanes>
void pack_quantized_tile(const TileRows &rows, uint64_t cols, std::byte *dst) {
    constexpr PackedFormat format = packed_format(type);
    constexpr int n_words = format.blocks * format.words();
    constexpr int n_halves = format.halves();
    const gguf::BlockTraits traits = gguf::traits(type);
    const size_t file_blocks = cols / traits.elements;
    constexpr int per_unit = format.blocks == 2 ? 2 : 1; // file blocks in a unit
    uint32_t words[lanes][n_words] = {};
    uint16_t halves[lanes][n_halves] = {};

    for (size_t block = 0; block < file_blocks; block += per_unit, dst += format.unit_bytes(lanes)) {
        for (int lane = 0; lane < rows.count; ++lane) {
            const uint8_t *src = rows.first + lane * rows.row_bytes + block * traits.bytes;
            if constexpr (per_unit == 1) {
                unpack_file_super<type>(src, words[lane], halves[lane]);
            } else {
                for (int b = 0; b < 2; ++b) {
                    uint32_t *w = words[lane] + b * format.words();
                    uint16_t *h = halves[lane] + b * (n_halves / 2);
                    if (block + b < file_blocks) {
                        unpack_file_block<type>(src + b * traits.bytes, w, h);
                    } else { // an odd last block leaves half a unit empty
                        std::fill_n(w, format.words(), 0u);
                        std::fill_n(h, n_halves / 2, uint16_t{0});
                    }
                }
            }
        }
        interleave(halves, reinterpret_cast<uint16_t *>(dst));
        interleave(words, reinterpret_cast<uint32_t *>(dst + format.halves_bytes(lanes)));
    }
}

template <class Value, int lanes> void pack_float_tile(const TileRows &rows, uint64_t cols, std::byte *dst) {
    auto *out = reinterpret_cast<Value *>(dst);
    constexpr uint64_t kStrip = 64 / sizeof(Value); // a cache line of each row
    for (uint64_t k0 = 0; k0 < cols; k0 += kStrip) {
        const uint64_t width = std::min(kStrip, cols - k0);
        Value strip[lanes][kStrip] = {};
        for (int lane = 0; lane < rows.count; ++lane)
            std::memcpy(strip[lane], rows.first + lane * rows.row_bytes + k0 * sizeof(Value),
                        width * sizeof(Value));
        for (uint64_t k = 0; k < width; ++k)
            for (int lane = 0; lane < lanes; ++lane)
                out[(k0 + k) * lanes + lane] = strip[lane][k];
    }
}

// kSplitQ8: the words of Q8_0, each value plus 128, whose nibbles go to a plane each. False for a scale that is negative, -0
// included, or not finite.
template <int lanes> bool pack_split_tile(const TileRows &rows, uint64_t cols, std::byte *high, std::byte *low) {
    constexpr PackedFormat format = packed_format(kSplitQ8);
    constexpr int plane_words = format.blocks * format.words();
    const gguf::BlockTraits traits = gguf::traits(BlockType::Q8_0);
    const size_t file_blocks = cols / traits.elements;
    uint32_t high_words[lanes][plane_words] = {}, low_words[lanes][plane_words] = {};
    uint16_t halves[lanes][format.halves()] = {};
    bool plain = true;
    for (size_t first = 0; first < file_blocks; first += format.blocks) {
        for (int lane = 0; lane < rows.count; ++lane)
            for (int b = 0; b < format.blocks; ++b) {
                uint32_t words[8] = {}; // an odd last block leaves half a unit empty
                uint16_t scale = 0;
                if (first + b < file_blocks)
                    unpack_file_block<BlockType::Q8_0>(rows.first + lane * rows.row_bytes + (first + b) * traits.bytes, words, &scale);
                plain &= scale < 0x7c00;
                halves[lane][b] = scale;
                for (int j = 0; j < 4; ++j) {
                    const uint32_t front = words[j] ^ 0x80808080u, back = words[j + 4] ^ 0x80808080u;
                    high_words[lane][4 * b + j] = (front >> 4 & 0x0f0f0f0fu) | (back & 0xf0f0f0f0u);
                    low_words[lane][4 * b + j] = (front & 0x0f0f0f0fu) | (back & 0x0f0f0f0fu) << 4;
                }
            }
        interleave(halves, reinterpret_cast<uint16_t *>(high));
        interleave(high_words, reinterpret_cast<uint32_t *>(high + format.halves_bytes(lanes)));
        interleave(low_words, reinterpret_cast<uint32_t *>(low));
        high += format.unit_bytes(lanes);
        low += format.low_unit_bytes(lanes);
    }
    return plain;
}

// The rows of each tile in [first, last) of a tensor.
template <class F> void each_tile(const TensorView &tensor, int lanes, uint64_t first, uint64_t last, const F &f) {
    const size_t row_bytes = tensor.data.size() / tensor.rows;
    const auto *data = reinterpret_cast<const uint8_t *>(tensor.data.data());
    for (uint64_t tile = first; tile < last; ++tile) {
        const uint64_t row = tile * lanes;
        f(tile, TileRows{data + row * row_bytes, row_bytes, static_cast<int>(std::min<uint64_t>(lanes, tensor.rows - row))});
    }
}

template <int lanes> void pack_tile(BlockType type, const TileRows &rows, uint64_t cols, std::byte *dst) {
    if (type == BlockType::F32)
        return pack_float_tile<uint32_t, lanes>(rows, cols, dst);
    if (is_float_type(type))
        return pack_float_tile<uint16_t, lanes>(rows, cols, dst);
    with_quantized_type(type, [&]<BlockType t>() { pack_quantized_tile<t, lanes>(rows, cols, dst); });
}

} // namespace

uint64_t packed_bytes(BlockType type, uint64_t rows, uint64_t cols, int lanes) {
    return (rows + lanes - 1) / lanes * (packed_tile_bytes(type, cols, lanes) + low_tile_bytes(type, cols, lanes));
}

void pack_tiles(const TensorView &tensor, int lanes, std::byte *dst, uint64_t first, uint64_t last) {
    const uint64_t tile_bytes = packed_tile_bytes(tensor.type, tensor.cols, lanes);
    each_tile(tensor, lanes, first, last, [&](uint64_t tile, const TileRows &rows) {
        std::byte *out = dst + tile * tile_bytes;
        lanes == 32 ? pack_tile<32>(tensor.type, rows, tensor.cols, out) : pack_tile<16>(tensor.type, rows, tensor.cols, out);
    });
}

bool pack_split_tiles(const TensorView &tensor, int lanes, std::byte *high, std::byte *low, uint64_t first, uint64_t last) {
    const uint64_t tile_bytes = packed_tile_bytes(kSplitQ8, tensor.cols, lanes), low_bytes = low_tile_bytes(kSplitQ8, tensor.cols, lanes);
    bool plain = true;
    each_tile(tensor, lanes, first, last, [&](uint64_t tile, const TileRows &rows) {
        std::byte *to = high + tile * tile_bytes, *low_to = low + tile * low_bytes;
        plain &= lanes == 32 ? pack_split_tile<32>(rows, tensor.cols, to, low_to) : pack_split_tile<16>(rows, tensor.cols, to, low_to);
    });
    return plain;
}

PackedMatrix place_matrix(BlockType type, uint64_t rows, uint64_t cols, int lanes, const std::byte *data) {
    PackedMatrix matrix{type, rows, cols, lanes, packed_tile_bytes(type, cols, lanes), data};
    if (low_tile_bytes(type, cols, lanes) > 0)
        matrix.low = data + matrix.tiles() * matrix.tile_bytes;
    return matrix;
}

namespace {

void unpack_float_row(const PackedMatrix &matrix, const std::byte *tile, int lane, float *dst) {
    for (uint64_t k = 0; k < matrix.cols; ++k) {
        const uint64_t index = k * matrix.lanes + lane;
        if (matrix.type == BlockType::F32) {
            std::memcpy(dst + k, tile + index * 4, 4);
        } else {
            uint16_t bits;
            std::memcpy(&bits, tile + index * 2, 2);
            dst[k] =
                matrix.type == BlockType::F16 ? gguf::half_to_float(bits) : gguf::bfloat16_to_float(bits);
        }
    }
}

template <BlockType type>
void unpack_quantized_row(const PackedMatrix &matrix, uint64_t index, int lane, float *dst) {
    constexpr PackedFormat format = packed_format(type);
    const std::byte *tile = matrix.data + index * matrix.tile_bytes;
    const std::byte *low = matrix.low + index * low_tile_bytes(type, matrix.cols, matrix.lanes);
    for (uint64_t b = 0; b < matrix.cols / 32; ++b, dst += 32) {
        const size_t u = b / format.blocks;
        const std::byte *unit = tile + u * format.unit_bytes(matrix.lanes);
        const LaneBlock block =
            decode_lane_block<type>(unit, matrix.lanes, lane, static_cast<int>(b % format.blocks), low + u * format.low_unit_bytes(matrix.lanes));
        for (int k = 0; k < 32; ++k) {
            const float q = block.q[k];
            switch (format.scaling) {
            case Scaling::scale: dst[k] = block.d * q; break;
            case Scaling::scale_min: dst[k] = block.d * q + block.m[0]; break;
            case Scaling::halves: dst[k] = block.d * static_cast<float>(block.c[k / 16]) * q; break;
            case Scaling::halves_min:
                dst[k] = block.d * static_cast<float>(block.c[k / 16]) * q + block.m[k / 16];
                break;
            }
        }
    }
}

} // namespace

void unpack_row(const PackedMatrix &matrix, uint64_t row, float *dst) {
    const uint64_t tile = row / matrix.lanes;
    const int lane = static_cast<int>(row % matrix.lanes);
    if (is_float_type(matrix.type))
        return unpack_float_row(matrix, matrix.data + tile * matrix.tile_bytes, lane, dst);
    with_quantized_type(matrix.type,
                        [&]<BlockType type>() { unpack_quantized_row<type>(matrix, tile, lane, dst); });
}

bool needs_quantized_rows(BlockType type) { return !is_float_type(type); }

size_t quantized_row_bytes(uint64_t cols) { return RowLayout(cols).bytes; }

} // namespace muser::cpu
