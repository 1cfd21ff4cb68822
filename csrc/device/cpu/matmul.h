// Quantized matrix products: weights packed once into lane-interleaved tiles, activations quantized once
// a row to int8 blocks, one kernel table a level. The executor (recorder) splits tiles over threads.
//
// A tile is `lanes` consecutive output rows over all columns, interleaved so that each output element
// lives in one vector lane: its reduction is a chain over 32-value blocks in ascending order, whatever the
// number of activation rows. That is the whole exactness argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/cpu/level.h"
#include "device/device.h"

namespace muser::cpu {

inline constexpr int kQuantBlock = 32; // activation values that share one scale

struct PackedMatrix {
    gguf::BlockType type;
    uint64_t rows = 0; // logical; the last tile is padded with zero rows
    uint64_t cols = 0;
    int lanes = 0;
    uint64_t tile_bytes = 0;
    const std::byte *data = nullptr; // 64-byte aligned, owned by the caller
    const std::byte *low = nullptr;  // the second plane, of kSplitQ8 (format.h)
    uint64_t tiles() const { return (rows + lanes - 1) / lanes; }
};

// Bytes of the packed form of a matrix (exact, for memory_plan).
uint64_t packed_bytes(gguf::BlockType type, uint64_t rows, uint64_t cols, int lanes);
// Where a matrix of packed_bytes() at `data` has its parts.
PackedMatrix place_matrix(gguf::BlockType type, uint64_t rows, uint64_t cols, int lanes, const std::byte *data);
// Packs tiles [first, last) from the file's block format; threads may pack disjoint ranges at once.
void pack_tiles(const TensorView &tensor, int lanes, std::byte *dst, uint64_t first, uint64_t last);
// The same from Q8_0 to both planes of kSplitQ8. False if there is no bound on its outputs (bounds.h): a scale was negative or
// not finite.
bool pack_split_tiles(const TensorView &tensor, int lanes, std::byte *high, std::byte *low, uint64_t first, uint64_t last);
// float32 values of one logical row, exactly what gguf::dequantize gives for it (embedding look-up).
void unpack_row(const PackedMatrix &matrix, uint64_t row, float *dst);

// Activation rows as the kernels want them: the float32 rows, and their int8 form (when quantized).
struct ActivationRows {
    const float *values;      // [n, stride]
    size_t stride;            // floats between rows
    const std::byte *quants;  // [n] records of quantized_row_bytes(cols)
};
size_t quantized_row_bytes(uint64_t cols); // multiple of 64
bool needs_quantized_rows(gguf::BlockType type); // false for F32, F16, BF16 weights

struct MatmulKernels {
    Level level;
    int lanes;
    // Blocks [first, last) of a row of cols values, whose own begin at src, to its record at dst; first is a multiple of 8.
    // What comes before them in the record stays; what comes behind is still to be quantized.
    void (*quantize_blocks)(const float *src, uint64_t cols, uint64_t first, uint64_t last, std::byte *dst);
    void quantize_row(const float *src, uint64_t cols, std::byte *dst) const {
        quantize_blocks(src, cols, 0, cols / kQuantBlock, dst);
    }
    // out[r * out_stride + o] for r in [0, n) and the outputs o of tiles [first, last), never past matrix.rows.
    // bias [rows] may be null; it is added last.
    void (*matmul)(const PackedMatrix &matrix, uint64_t first, uint64_t last, const ActivationRows &in, int n, float *out,
                   size_t out_stride, const float *bias);
    // What the outputs of each tile of a kSplitQ8 matrix stay below (bounds.h): out[r * out_stride + tile] for the tiles
    // [first, last) and r in [0, n), n up to 4. From the first plane alone.
    void (*bounds)(const PackedMatrix &matrix, uint64_t first, uint64_t last, const ActivationRows &in, int n, float *out,
                   size_t out_stride);
};
const MatmulKernels &matmul_kernels(Level level);

} // namespace muser::cpu
